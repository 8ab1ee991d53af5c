#pragma once

#include <cstdint>
#include <functional>

#include "strata/device/slot_ring.h"

namespace strata {

/// Per-token losses on their way to the host, where they are summed in f64 in token order.
class LossStore {
 public:
  static constexpr int kSlots = 2;

  /// Losses of a pass, [tokens] dtype, in each slot.
  struct Memory {
    Memory(std::int64_t tokens, DType dtype, Allocator& memory);

    SlotRing device;
    SlotRing host;  ///< pinned
  };

  /// `tokens` of a pass, `dtype` A.
  LossStore(std::int64_t tokens, DType dtype, Arenas& arenas);

  struct LossLease {
    Lease lease;
    TensorView loss;  ///< [tokens] A
  };
  [[nodiscard]] LossLease acquire(Stream& compute);
  /// Sends the losses to the host lane, which calls `receive` with their sum.
  void deliver(LossLease lease, const Tag& tag, std::function<void(double)> receive);

 private:
  std::int64_t tokens_ = 0;
  DType dtype_ = DType::kF32;
  Device& device_;
  Memory memory_;
};

}  // namespace strata
