// Takes what rounding to e4m3 has lost in a step (strata/model/fp8_counts.h) from the device to the
// host. The engine acquires zeros before a step that counts, and delivers them when the step is
// submitted. Calls come from the submitting thread and do not block; counts are handed out on the
// host lane.

#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "strata/device/slot_ring.h"

namespace strata {

class Fp8CountStore {
 public:
  /// A slot for the counts of a step on each side: few steps count, so one waits for the other.
  struct Memory {
    Memory(std::int64_t rows, Allocator& memory);

    SlotRing device;  ///< on the device
    SlotRing host;    ///< pinned
  };

  /// Takes memory for so many rows of counts. The arenas must outlive the store. Throws
  /// OutOfMemory.
  Fp8CountStore(std::int64_t rows, Arenas& arenas);

  /// The lease is the right to add to the counts of a step on the device.
  struct CountLease {
    Lease lease;
    TensorView counts;  ///< [rows, CountFp8::kCounts] f64
  };
  /// Returns counts of zero, to be added to on `compute`.
  [[nodiscard]] CountLease acquire(Stream& compute, const Tag& tag);
  /// Copies the counts to the host on the out lane, and calls `receive` with all of them on the
  /// host lane.
  void deliver(CountLease lease, const Tag& tag,
               std::function<void(std::span<const double>)> receive);

 private:
  std::int64_t rows_ = 0;
  Device& device_;
  Memory memory_;
};

}  // namespace strata
