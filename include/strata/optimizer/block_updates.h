// Deals out the updates of a step: it makes the updaters that rows of the table of blocks name, and
// calls the updater of a block at the moment that its row names. Updates that wait for a load are
// submitted when the weight store tells of that load: a lane that took all of them at once would
// hold up what the forward needs meanwhile. The optimizer calls it on the submitting thread, except
// for expect() and settle(); no call blocks.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "strata/optimizer/muon_updater.h"
#include "strata/optimizer/optimizer_parts.h"
#include "strata/optimizer/sharded_muon.h"
#include "strata/optimizer/shuttle_updater.h"
#include "strata/optimizer/speculative_updater.h"
#include "strata/optimizer/step.h"
#include "strata/optimizer/step_judge.h"
#include "strata/optimizer/update_rule.h"
#include "strata/optimizer/updater.h"

namespace strata {

/// Updates read these, which belong to the optimizer and outlive them.
struct UpdateSources {
  const UpdateRule& rule;
  const AdamWScalars* scalars;  ///< pinned: the numbers of the step once it is decided
  const StepJudge& judge;       ///< host lane only
  double muon_momentum;         ///< of matrices that are updated as wholes
};

/// Submits the updates of all blocks. What is submitted depends on the table of blocks alone.
class BlockUpdates final : private LoadObserver {
 public:
  /// This is the memory that updaters take, and the flags of what they find.
  struct Memory {
    Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory);

    StateShuttle::Memory shuttle;         ///< handed to the updater of interleaved blocks, if any
    TensorView nonfinite;                 ///< pageable, [1] i32: of updates on the host
    std::optional<UndoLog::Memory> undo;  ///< absent if no block is speculated
    std::optional<MuonUpdater::Memory> muon;        ///< absent if no row names that updater
    std::optional<ShardedMuonMemory> sharded_muon;  ///< instead of it, with several ranks
    TensorView device_nonfinite;  ///< device, [1] i32: of updates there, or absent
    TensorView landed_nonfinite;  ///< pinned, [1] i32: what the device says, or absent
  };

  /// Makes the updaters that rows name, and hears of the loads of the weight store from now on. The
  /// arguments and the owner of the memory outlive the updates.
  BlockUpdates(const OptimizerParts& parts, const UpdateSources& sources, Memory memory);
  BlockUpdates(const BlockUpdates&) = delete;  // updaters and the weight store refer to it
  BlockUpdates& operator=(const BlockUpdates&) = delete;

  /// Tells `observer`, which outlives the updates, of every update that is submitted from now on.
  void observe(UpdateObserver& observer) { observers_.push_back(&observer); }
  /// Begins the step of `plan`.
  void begin_step(const StepPlan& plan) { step_ = plan; }
  /// Takes a gradient that is home and whose norm was taken, and submits the block's update if its
  /// row says so. `decided` is the event of the step's decision if that is submitted.
  void arrived(Arrival arrival, std::optional<Event> decided, const Tag& tag);
  /// Submits, in forward order, the updates that are due once the step is decided, so that the next
  /// forward can follow block by block. Those of rows that say so are left to loads.
  void decided(Event decided, const Tag& tag);
  /// Submits the check of what updates on the device found, if none is left to a load.
  void end_step(const Tag& tag);
  /// Submits the updates of the last step that no load has asked for, and the check of what updates
  /// on the device found. Does nothing if no update was left to loads. After it the host lane knows
  /// that the scalars of that step were read, and may write them anew.
  void submit_waiting(const Tag& tag);

  /// Gives updaters the numbers that the step's updates will probably have. Called on the host
  /// lane.
  void expect(const AdamWScalars& guess);
  /// Gives updaters the numbers that they have. Returns false if early updates must be done again.
  /// Called on the host lane.
  [[nodiscard]] bool settle(const AdamWScalars& actual);
  /// Adds to `accesses` what expect() and settle() write.
  void add_numbers(Accesses& accesses) const;

  /// Returns the bytes of state that have crossed the link for updates so far, each way.
  [[nodiscard]] std::size_t shipped_bytes() const {
    return shuttle_ == nullptr ? 0 : shuttle_->shipped_bytes();
  }

 private:
  /// The rows that share an updater have this in common.
  using Kind = std::pair<UpdatedBy, bool>;  ///< who updates, and whether it is speculated
  /// The updates of a step that are left to loads are submitted with this.
  struct Waiting {
    std::int64_t step_number = 0;
    Event decided;
    Tag tag;
  };

  /// Submits the update of a block if it was left to a load.
  void before_load(BlockId block) override;
  void check_device_updates(std::int64_t step_number, const Tag& tag);
  [[nodiscard]] Tag tag_of(BlockId block, const Tag& tag) const;
  [[nodiscard]] std::unique_ptr<Updater> make_updater(const BlockPlan& row,
                                                      const UpdaterParts& parts, ThreadPool& pool);

  TrainingState& state_;
  WeightStore& weights_;
  const StepJudge& judge_;
  Stream& host_;
  Stream& out_;
  Memory memory_;
  std::vector<UpdateObserver*> observers_;
  double muon_momentum_;
  StepPlan step_;  ///< that is being submitted
  std::map<Kind, std::unique_ptr<Updater>> updaters_;
  ShuttleUpdater* shuttle_ = nullptr;  ///< one of the updaters, if there are interleaved blocks
  PerBlock<Updater*> updater_of_;      ///< null for a block that nobody updates
  PerBlock<Arrival> arrivals_;         ///< until the update is submitted
  std::optional<Waiting> waiting_;     ///< absent if no update of the last step was left to loads
  PerBlock<std::uint8_t> waits_;       ///< whether the block's update waits for a load
};

}  // namespace strata
