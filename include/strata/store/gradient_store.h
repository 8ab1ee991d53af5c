#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "strata/comm/communicator.h"
#include "strata/device/slot_ring.h"
#include "strata/ops/kernels.h"
#include "strata/store/training_state.h"

namespace strata {

/// The right to add to one unit's gradients on the compute lane.
struct GradientLease {
  UnitId unit;
  std::vector<Lease> leases;       ///< one per block of the unit
  std::vector<std::byte*> blocks;  ///< first byte of each block's accumulator, A, on the device
};

/// A block's gradient of this step is complete at home once `event` has passed.
struct Arrival {
  BlockId block;
  ConstTensorView gradient;  ///< [n] BlockPlan::gradient_dtype, what the optimizer reads
  Lease slot;                ///< of the ring, for who reads the gradient there; absent in a home
  Event event;
  /// [SquaredNorm::partials(n)] f64, pinned: what SquaredNorm has of the gradient, there once
  /// `event` has passed. Absent if the device did not have the final gradient.
  ConstTensorView norms;
  Lease norms_lease;  ///< of `norms`: whoever reads them uses it
};

/// Gradients on their way: device accumulators in A -> (reduce-scatter over ranks) -> home shards.
/// A step's contributions to a block (passes; both ends of tied embeddings) are summed in A, on the
/// device or on the host, with the same bits; after the last one the sum is rounded to the gradient
/// dtype, once. A gradient that is complete on the device is rounded there, which then also takes
/// its squared norm. Where a gradient's home is a ring it has a slot until its arrival's lease
/// ends, and where it is a passing place, that place until the next comes on the out-lane.
class GradientStore {
 public:
  /// Accumulators and places on the way home. What has no slot or no bytes is not needed.
  struct Memory {
    Memory(const ModelLayout& layout, const StatePlan& plan, int layer_slots, Allocator& memory);

    SlotRing embedding;  ///< device: an accumulator, [padded] A
    SlotRing layers;
    SlotRing head;
    std::byte* rounded =
        nullptr;  ///< device, kChunkBytes: a chunk in the gradient dtype (out-lane)
    std::byte* passing = nullptr;  ///< device: a gradient whose home is kPassing
    TensorView norms;  ///< device: squared norms of the block that is leaving (out-lane), f64
    SlotRing ring;     ///< pinned: gradients whose home is kRing
    SlotRing landing;  ///< pinned chunks: contributions that are added on the host
    PerBlock<SlotRing> home_norms;  ///< pinned: squared norms on the host, or no slot
    PerBlock<SlotRing> sums;        ///< device: [n] A where the device adds, or no slot
  };

  /// `kernels` run on device lanes, `host_kernels` on the host lane. The arguments outlive the
  /// store.
  GradientStore(TrainingState& state, Communicator& ranks, Kernels& kernels, Kernels& host_kernels,
                Arenas& arenas, int layer_slots);
  /// Returns the most partial sums of squares of a block that the host must take itself, because
  /// the device never has its complete gradient.
  static std::int64_t host_partials(const ModelLayout& layout, const StatePlan& plan);

  void begin_step();
  /// Accumulators of all blocks of a unit, zero.
  [[nodiscard]] GradientLease acquire(UnitId unit, Stream& compute, const Tag& tag);
  /// Sends the accumulators home. Returns the blocks whose gradient is now complete for the step.
  [[nodiscard]] std::vector<Arrival> offload(GradientLease lease, const Tag& tag);
  /// Bytes that have crossed this rank's link so far.
  [[nodiscard]] std::size_t offloaded_bytes() const { return offloaded_bytes_; }

 private:
  [[nodiscard]] SlotRing& ring_of(BlockId block);
  void reduce(Lease& lease, BlockId block, const Tag& tag);
  [[nodiscard]] ConstTensorView shard_of(const Lease& lease, BlockId block) const;
  [[nodiscard]] TensorView sum_in(const Lease& lease, BlockId block) const;
  void add_on_device(Lease contribution, BlockId block, const Tag& tag);
  [[nodiscard]] TensorView landing_place(BlockId block, Lease& slot);
  [[nodiscard]] Lease send_home(const ConstTensorView& shard, BlockId block, const TensorView& home,
                                const Tag& tag);
  void round_away(const ConstTensorView& shard, const TensorView& home, const TensorView& norms,
                  const Tag& tag);
  void add_on_host(Lease& lease, BlockId block, int arrived, const Tag& tag);
  void round_home(BlockId block, const Tag& tag);

  TrainingState& state_;
  Communicator& ranks_;
  Kernels& kernels_;
  Kernels& host_kernels_;
  Device& device_;
  Memory memory_;
  PerBlock<Lease> open_sums_;  ///< from a sum's first contribution of a step to its last
  PerBlock<int> arrivals_;     ///< contributions that have arrived in this step
  std::size_t offloaded_bytes_ = 0;
};

}  // namespace strata
