// Saves the training state while training goes on (DataStates-LLM, 2024). Saved is the state after
// one step: every block as it is after its last update of that step and before its first of the
// next. Nothing stops for it. A block is written from its home, and its next update waits until it
// is; or it is staged: copied first, so that only the copy is waited for. State on the device that
// has no copy of its own goes through one that all of it shares, block by block, and the out lane
// waits for each to be written. Where only weights are saved, only those are copied and written.
// Where there are several copies of the state, the first one is saved. The submitting thread calls
// all members but tell().
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "strata/checkpoint/checkpoint_save.h"
#include "strata/optimizer/step.h"
#include "strata/optimizer/updater.h"

namespace strata {

/// What a planner decides of saves.
struct SavePlan {
  CheckpointTypes types;
  int writers = 1;          ///< threads of the save lane
  std::size_t staging = 0;  ///< bytes that may be taken to stage blocks
  bool operator==(const SavePlan&) const = default;
};

/// Returns the types in which the checkpoints of a run hold its state.
[[nodiscard]] CheckpointTypes checkpoint_types(const StatePlan& plan);
/// Returns the blocks that are trained in the order in which their updates are submitted in a step.
[[nodiscard]] std::vector<BlockId> update_order(const StatePlan& plan);

class StateSaver final : public UpdateObserver {
 public:
  /// This is the memory that saves take.
  struct Memory {
    Memory(const ModelLayout& layout, const StatePlan& plan, const SavePlan& saves,
           Allocator& memory);

    /// Takes what stages blocks in addition, for a plan that was made with none.
    static void add_staging(const ModelLayout& layout, const StatePlan& plan, std::size_t staging,
                            Allocator& memory);

    std::byte* buffers = nullptr;   ///< pageable
    std::size_t buffer_bytes = 0;   ///< of one
    std::size_t buffers_bytes = 0;  ///< of all, and room to align them
    PerBlock<BlockState> staged;    ///< where staged blocks are copied to; of others all is absent
    std::byte* passage = nullptr;   ///< pinned
    PerBlock<BlockState> passing;   ///< blocks on the device that are not staged, in the passage
  };

  /// `state` and the arenas outlive the saver. `pool` is that of the host lane. Throws
  /// OutOfMemory, OutOfThreads.
  StateSaver(TrainingState& state, Arenas& arenas, ThreadPool& pool, const SavePlan& plan);

  /// Returns what saves need of it.
  [[nodiscard]] ThreadPool& writers() { return writers_; }
  [[nodiscard]] WindowBuffers& buffers() { return buffers_; }
  [[nodiscard]] const CheckpointLayout& layout() const { return layout_; }
  /// Returns the bytes of this rank's state that are staged.
  [[nodiscard]] std::size_t staged_bytes() const;

  /// Begins saves of the state after the step that is submitted next, one or more; updates of the
  /// one before may still wait for a load. No saves are under way.
  void begin(Saves saves);
  /// To be called for every step: says that all of it is submitted but the updates that wait for a
  /// load, and that `told` comes after tell().
  void end_step(Event told);
  /// Tells the saves under way what validations have found that are committed when validated.
  void validated(const Validations& validations);
  /// Writes the state as it is. Everything that was submitted is done, and no update waits for a
  /// load. At least one step was submitted.
  void write_now(Saves saves);
  /// Says what became of a step. Run on the host lane.
  void tell(const StepOutcome& outcome);

  /// Returns whether saves are under way whose reports were not taken.
  [[nodiscard]] bool busy() const { return !saves_.empty(); }
  /// Returns what came of each save, once they have ended, and lets the next ones begin; nothing
  /// before.
  [[nodiscard]] std::vector<SaveReport> take_reports();
  /// Blocks until the saves under way have ended, if there are some whose updates are all
  /// submitted. Calls `meanwhile`, if it is given, ten times a second.
  void wait(const std::function<void()>& meanwhile = nullptr);

  void before_update(BlockId block, Stream& lane) override;
  void after_update(BlockId block, Event done) override;

 private:
  using Tensor = TensorView BlockState::*;
  [[nodiscard]] std::vector<Tensor> wanted_tensors(const BlockState& block) const;
  [[nodiscard]] Accesses staging() const;
  void touch_staging();
  void take(BlockId block, Event done);
  void stage(BlockId block, const BlockState& to, Event done, Event free);
  void write(BlockId block, const BlockState& from);
  void finish_blocks();
  [[nodiscard]] Tag tag_of(BlockId block) const {
    return {.phase = "save", .unit = state_.layout().blocks[block].unit.value()};
  }

  TrainingState& state_;
  Device& device_;
  ThreadPool& pool_;
  CheckpointLayout layout_;
  Memory memory_;
  ThreadPool writers_;
  WindowBuffers buffers_;
  Stream& lane_;  ///< save

  Saves saves_;                     ///< under way, until their reports are taken
  bool weights_alone_ = false;      ///< all of them need
  PerBlock<std::uint8_t> wanted_;   ///< of the saves under way: its update is still to come
  PerBlock<Event> taken_;           ///< after it the block's state may change
  std::vector<BlockId> later_;      ///< staged blocks, which are written after all others
  std::size_t left_ = 0;            ///< blocks that are wanted
  std::int64_t steps_ = 0;          ///< that were submitted
  std::int64_t wanted_update_ = 0;  ///< number of the one after which a block is wanted
  PerBlock<std::int64_t> updates_;  ///< that were submitted, one a step
  std::optional<Event> told_;
  std::optional<Event> committed_;  ///< the end of the saves under way
  Event passed_;                    ///< after it the passage is free
  Event last_;                      ///< the end of the saves before them

  std::mutex mutex_;
  Saves listeners_;                      ///< guarded by mutex_: whom tell() tells
  std::optional<StepFacts> last_facts_;  ///< guarded by mutex_: of the last step told of
  bool ended_ = false;                   ///< guarded by mutex_
  std::condition_variable end_;          ///< of the saves under way
};

}  // namespace strata
