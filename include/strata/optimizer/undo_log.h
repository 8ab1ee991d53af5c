// What makes early updates safe: the old state of speculated blocks, and the numbers with which
// they were updated. The speculative updater owns the log and drives it; predict() and settle() run
// on the host lane, everything else is called by the submitting thread. Nothing blocks, and nothing
// is decided outside of host tasks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "strata/base/thread_pool.h"
#include "strata/device/stream.h"
#include "strata/ops/optimizer.h"
#include "strata/store/training_state.h"

namespace strata {

/// Keeps, for blocks that are updated before the norm is known, the state that they had before.
/// When the norm is known and the guess was wrong, their state comes back and, if the step is
/// applied at all, they are updated again. Whether that is so depends on data and stays inside host
/// tasks; what is submitted depends on the blocks alone. A step calls predict(), save() and an
/// update for each block, settle(), restore() and another update for each.
class UndoLog {
 public:
  /// The old state of every block whose row is speculated, and the numbers of the guess.
  struct Memory {
    Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory);

    PerBlock<std::byte*> slots;    ///< pageable; null for a block that is not speculated
    std::byte* numbers = nullptr;  ///< pageable
    TensorView nonfinite;          ///< pageable, [blocks] i32
  };
  /// Returns the bytes that the old state of a block takes of the log.
  static std::size_t slot_bytes(const ModelLayout& layout, const StatePlan& plan, BlockId block);

  /// `pool` does the copying. It, the state and the owner of the memory outlive the log.
  UndoLog(TrainingState& state, const Memory& memory, ThreadPool& pool);

  /// Takes the numbers of this step's early updates. Runs on the host lane.
  void predict(const AdamWScalars& guess) { numbers_->early = guess; }
  /// Takes the numbers that the step has, and returns true if they are those of the early updates.
  /// Runs on the host lane.
  bool settle(const AdamWScalars& actual);
  /// Returns what predict() and settle() write.
  [[nodiscard]] ByteRange numbers() const;

  /// Submits the copy of a block's state into the log. The task does nothing if no update is
  /// expected.
  void save(BlockId block, Stream& host, const Tag& tag);
  /// Submits the copy back, which also forgets what the early update found. The task does nothing
  /// if the guess held.
  void restore(BlockId block, Stream& host, const Tag& tag);

  /// Returns the numbers for updates between save() and settle().
  [[nodiscard]] const AdamWScalars* early() const { return &numbers_->early; }
  /// Returns the numbers for updates after restore(). They say not to apply if the guess held.
  [[nodiscard]] const AdamWScalars* again() const { return &numbers_->again; }
  /// Returns the flag of a block, [1] i32, that both of its updates set if a new weight is not
  /// finite.
  [[nodiscard]] TensorView nonfinite(BlockId block) const {
    return nonfinite_.slice_rows(block.value(), 1);
  }

 private:
  /// What host tasks of a step read to know what to do.
  struct Numbers {
    AdamWScalars early;
    AdamWScalars again;
    bool missed = false;
  };
  enum class Way : std::uint8_t { kIntoLog, kBack };

  /// Returns the tensors of a block that an update changes.
  [[nodiscard]] std::vector<TensorView> state_of(BlockId block) const;
  [[nodiscard]] ByteRange slot_of(BlockId block) const;
  void copy(BlockId block, Way way) const;
  /// Counts a step, and warns if most of the last ones missed.
  void count(bool missed);

  TrainingState& state_;
  ThreadPool& pool_;
  PerBlock<std::byte*> slots_;  ///< by block: its old state, or null
  Numbers* numbers_ = nullptr;  ///< host lane only, like what follows
  TensorView nonfinite_;        ///< [blocks] i32
  int steps_ = 0;               ///< since misses were last looked at
  int misses_ = 0;
};

}  // namespace strata
