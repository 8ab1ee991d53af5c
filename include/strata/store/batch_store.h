#pragma once

#include <cstdint>
#include <vector>

#include "strata/data/batch.h"
#include "strata/device/slot_ring.h"
#include "strata/model/llama.h"

namespace strata {

/// Shape and dtype of what a pass reads of the data.
struct BatchStoreShape {
  BatchShape batch;
  DocumentMask mask = DocumentMask::kOff;
  DType scale = DType::kF32;  ///< of the gradient scale: A
  int host_slots = 2;         ///< passes whose tokens are on the host at once
};

/// One pass's tokens on the device, until it is destroyed.
struct BatchLease {
  Lease lease;
  std::vector<CellBatch> cells;  ///< per sub-batch
  ConstTensorView grad_scale;    ///< [1] A
};

/// Token batches on their way: filled by the submitting thread in pinned memory, one copy a pass.
class BatchStore {
 public:
  static constexpr int kDeviceSlots = 2;

  /// Buffers of a whole pass each.
  struct Memory {
    Memory(const BatchStoreShape& shape, Allocator& memory);

    SlotRing slots;                ///< on the device
    std::vector<std::byte*> host;  ///< pinned, one per host slot
  };

  BatchStore(const BatchStoreShape& shape, Arenas& arenas);

  /// Pinned memory to fill for a pass. Blocks until its last upload has finished: call it between
  /// steps.
  [[nodiscard]] PassBuffers host(int slot);
  /// Sets what every gradient of the pass is multiplied with: 1 / valid tokens of the step.
  void set_grad_scale(int slot, double scale);
  /// Copies a host slot to the device, for use on `compute`.
  [[nodiscard]] BatchLease upload(int slot, Stream& compute, const Tag& tag);

 private:
  struct Offsets {
    std::size_t ids, targets, positions, segments, order, scale, total;
  };
  static Offsets offsets(const BatchStoreShape& shape);
  [[nodiscard]] BatchLease view(Lease lease) const;

  BatchStoreShape shape_;
  Offsets offsets_;
  Device& device_;
  Memory memory_;
  std::vector<Event> uploaded_;
  std::int64_t uploads_ = 0;
};

}  // namespace strata
