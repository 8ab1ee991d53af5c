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
  /// The old state of every block whose row is speculated, and the numbers of the guess.
  struct Memory {
    Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory);

    PerBlock<std::byte*> slots;  ///< pageable; null for a block that is not speculated
    std::byte* numbers = nullptr;
    TensorView nonfinite;  ///< [blocks] i32
  };
  /// Returns the bytes that the old state of a block takes of the log.
  static std::size_t slot_bytes(const ModelLayout& layout, const StatePlan& plan, BlockId block);

  /// `pool` copies; it, the state and the memory's owner outlive the log.
  UndoLog(TrainingState& state, const Memory& memory, ThreadPool& pool);

  /// Host lane: the numbers of this step's early updates.
  void predict(const AdamWScalars& guess) { numbers_->early = guess; }
  /// Host lane: the numbers that the step has. True if they are those of the early updates.
  bool settle(const AdamWScalars& actual);
  /// What predict() and settle() write.
  [[nodiscard]] ByteRange numbers() const;

  /// Submits the copy of a block's state into the log. Nothing if no update is expected.
  void save(BlockId block, Stream& host, const Tag& tag);
  /// Submits the copy back, and forgets what the early update found. Nothing if the guess held.
  void restore(BlockId block, Stream& host, const Tag& tag);

  /// Of updates between save() and settle().
  [[nodiscard]] const AdamWScalars* early() const { return &numbers_->early; }
  /// Of updates after restore(): not applied unless the guess was wrong.
  [[nodiscard]] const AdamWScalars* again() const { return &numbers_->again; }
  /// [1] i32, of both updates of a block: what AdamW says of its new weights.
  [[nodiscard]] TensorView nonfinite(BlockId block) const {
    return nonfinite_.slice_rows(block.value(), 1);
  }

 private:
  struct Numbers {
    AdamWScalars early;
    AdamWScalars again;
    bool missed = false;
  };
  enum class Way : std::uint8_t { kIntoLog, kBack };

  /// What an update changes.
  [[nodiscard]] std::vector<TensorView> state_of(BlockId block) const;
  [[nodiscard]] ByteRange slot_of(BlockId block) const;
  void copy(BlockId block, Way way) const;
  /// Warns if most steps miss.
  void count(bool missed);

  TrainingState& state_;
  ThreadPool& pool_;
  PerBlock<std::byte*> slots_;  ///< its old state, or null
  Numbers* numbers_ = nullptr;  ///< host lane only, like what follows
  TensorView nonfinite_;        ///< [blocks] i32
  int steps_ = 0;               ///< since misses were last counted
  int misses_ = 0;
};

}  // namespace strata
