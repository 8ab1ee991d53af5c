// The loss store takes the losses of tokens from the head to the host, where a pass's sum is made.
// The schedule acquires a slot before the first cell of the head and delivers it after the last
// one. Calls come from the submitting thread and do not block; the sum is handed out on the host
// lane.

#pragma once

#include <cstdint>
#include <functional>

#include "strata/device/slot_ring.h"

namespace strata {

/// The sums of a pass: of losses, and of the figures of pairs behind it (PreferenceLoss), which are
/// 0 where every token has a loss of its own.
struct LossSums {
  double loss = 0;
  double chosen_reward = 0;
  double rejected_reward = 0;
  double preferred = 0;  ///< pairs whose chosen answer has the larger reward
  LossSums& operator+=(const LossSums& more) {
    loss += more.loss;
    chosen_reward += more.chosen_reward;
    rejected_reward += more.rejected_reward;
    preferred += more.preferred;
    return *this;
  }
};

/// What a pass writes to a slot of losses.
enum class LossKind : std::uint8_t {
  kTokens,  ///< a loss for each token
  kPairs,   ///< rows of PreferenceLoss::kFigures, a quarter as many
};

/// Takes losses to the host. They are summed on the host in f64 in the order of tokens, so the sum
/// does not depend on threads.
class LossStore {
 public:
  /// So many passes may have losses on their way at once.
  static constexpr int kSlots = 2;

  /// Each slot holds the losses of a pass, [tokens] dtype.
  struct Memory {
    Memory(std::int64_t tokens, DType dtype, Allocator& memory);

    SlotRing device;  ///< on the device
    SlotRing host;    ///< pinned
  };

  /// Takes memory for passes of `tokens` tokens with losses in `dtype` (A). The arenas must outlive
  /// the store. Throws OutOfMemory.
  LossStore(std::int64_t tokens, DType dtype, Arenas& arenas, LossKind kind = LossKind::kTokens);

  /// The lease is the right to write the losses of a pass on the device.
  struct LossLease {
    Lease lease;
    TensorView loss;  ///< [tokens] A
  };
  /// Returns a slot for the losses of a pass, to be written on `compute`.
  [[nodiscard]] LossLease acquire(Stream& compute);
  /// Copies the losses to the host on the out lane and sums them on the host lane, where `receive`
  /// is called with the sums.
  void deliver(LossLease lease, const Tag& tag, std::function<void(const LossSums&)> receive);

 private:
  std::int64_t tokens_ = 0;
  DType dtype_ = DType::kF32;
  LossKind kind_ = LossKind::kTokens;
  Device& device_;
  Memory memory_;
};

}  // namespace strata
