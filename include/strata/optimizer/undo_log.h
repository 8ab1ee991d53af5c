#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "strata/base/thread_pool.h"
#include "strata/device/stream.h"
#include "strata/ops/optimizer.h"
#include "strata/store/training_state.h"

namespace strata {

/// Blocks that are updated before the norm is known: the state they had before, and the numbers of
/// the update that was guessed. When the norm is known and the guess was wrong, their state comes
/// back and, if the step is applied at all, they are updated again. Whether that is so depends on
/// data and stays inside host tasks; what is submitted depends on the blocks alone. A step is
/// predict, save and an update for each block, settle, restore and another update for each.
class UndoLog {
 public:
  /// Those of the blocks that are not among `deferred` (is_deferred) whose old state fits `bytes`,
  /// in the order in which gradients arrive: from the last. Blocks on the device are not among
  /// them.
  static std::vector<int> choose(const ModelLayout& layout, const StateOptions& options,
                                 int deferred, std::size_t bytes);
  /// What these blocks take of the log.
  static std::size_t bytes(const ModelLayout& layout, const StateOptions& options,
                           const std::vector<int>& blocks);
  static void plan(MemoryPlan& plan, const ModelLayout& layout, const StateOptions& options,
                   const std::vector<int>& blocks);

  /// `pool` copies; it, the state and the arena outlive the log.
  UndoLog(TrainingState& state, const std::vector<int>& blocks, Arena& pageable, ThreadPool& pool);

  [[nodiscard]] bool holds(int block) const { return slots_[index(block)] != nullptr; }

  /// Host lane: the numbers of this step's early updates.
  void predict(const AdamWScalars& guess) { numbers_->early = guess; }
  /// Host lane: the numbers that the step has. True if they are those of the early updates.
  bool settle(const AdamWScalars& actual);
  /// What predict() and settle() write.
  [[nodiscard]] ByteRange numbers() const;

  /// Submits the copy of a block's state into the log. Nothing if no update is expected.
  void save(int block, Stream& host, const Tag& tag);
  /// Submits the copy back, and forgets what the early update found. Nothing if the guess held.
  void restore(int block, Stream& host, const Tag& tag);

  /// Of updates between save() and settle().
  [[nodiscard]] const AdamWScalars* early() const { return &numbers_->early; }
  /// Of updates behind restore(): not applied unless the guess was wrong.
  [[nodiscard]] const AdamWScalars* again() const { return &numbers_->again; }
  /// [1] i32, of both updates of a block: what AdamW says of its new weights.
  [[nodiscard]] TensorView nonfinite(int block) const { return nonfinite_.slice_rows(block, 1); }

 private:
  struct Numbers {
    AdamWScalars early;
    AdamWScalars again;
    bool missed = false;
  };
  enum class Way : std::uint8_t { kIntoLog, kBack };

  static std::size_t index(int block) { return static_cast<std::size_t>(block); }
  /// What an update changes.
  [[nodiscard]] std::vector<TensorView> state_of(int block) const;
  [[nodiscard]] ByteRange slot_of(int block) const;
  void copy(int block, Way way) const;
  /// Warns if most steps miss.
  void count(bool missed);

  TrainingState& state_;
  ThreadPool& pool_;
  std::vector<std::byte*> slots_;  ///< per block: its old state, or null
  Numbers* numbers_ = nullptr;     ///< host lane only, like what follows
  TensorView nonfinite_;           ///< [blocks] i32
  int steps_ = 0;                  ///< since misses were last counted
  int misses_ = 0;
};

}  // namespace strata
