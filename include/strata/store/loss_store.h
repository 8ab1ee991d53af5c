// Losses of tokens on their way from the head to the host, where a pass's sum is made. The schedule
// acquires a slot before the first cell of the head and delivers it after the last one. Calls come
// from the submitting thread and do not block; the sum is handed out on the host lane.

#pragma once

#include <cstdint>
#include <functional>

#include "strata/device/slot_ring.h"

namespace strata {

/// The store of losses. They are summed on the host in f64 in the order of tokens, so the sum does
/// not depend on threads.
class LossStore {
 public:
  /// Passes whose losses may be on their way at once.
  static constexpr int kSlots = 2;

  /// The slots, each of which holds the losses of a pass, [tokens] dtype.
  struct Memory {
    Memory(std::int64_t tokens, DType dtype, Allocator& memory);

    SlotRing device;  ///< on the device
    SlotRing host;    ///< pinned
  };

  /// Takes memory for passes of `tokens` tokens with losses in `dtype` (A). The arenas must outlive
  /// the store. Throws OutOfMemory.
  LossStore(std::int64_t tokens, DType dtype, Arenas& arenas);

  /// The right to write the losses of a pass on the device.
  struct LossLease {
    Lease lease;
    TensorView loss;  ///< [tokens] A
  };
  /// Returns a slot for the losses of a pass, to be written on `compute`.
  [[nodiscard]] LossLease acquire(Stream& compute);
  /// Copies the losses to the host on the out lane and sums them on the host lane, where `receive`
  /// is called with the sum.
  void deliver(LossLease lease, const Tag& tag, std::function<void(double)> receive);

 private:
  std::int64_t tokens_ = 0;
  DType dtype_ = DType::kF32;
  Device& device_;
  Memory memory_;
};

}  // namespace strata
