#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "strata/comm/communicator.h"
#include "strata/device/slot_ring.h"
#include "strata/model/unit_views.h"
#include "strata/ops/kernels.h"
#include "strata/store/training_state.h"

namespace strata {

/// The right to add to one unit's gradients on the compute lane.
struct GradientLease {
  int unit = -1;
  std::vector<Lease> leases;  ///< one per block of the unit
  UnitGradients views;        ///< of the accumulators, A, on the device
};

/// A block's gradient of this step is complete at home once `event` has passed.
struct Arrival {
  int block = -1;
  ConstTensorView gradient;  ///< [n] gradient_storage(), what the optimizer reads
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
/// its squared norm. With StateOptions::gradient_ring such a gradient of a layer on the host has a
/// slot until its arrival's lease ends, and one of a resident layer a place until the next comes
/// on the out-lane.
class GradientStore {
 public:
  /// `kernels` run on device lanes, `host_kernels` on the host lane.
  GradientStore(TrainingState& state, Communicator& ranks, Kernels& kernels, Kernels& host_kernels,
                Arena& device_arena, Arena& pinned_arena, int layer_slots);
  static void plan(MemoryPlan& plan, const ModelLayout& layout, const StateOptions& options,
                   int layer_slots);
  /// Device memory for the sum of a block's contributions; 0 if the device takes none.
  static std::size_t sum_bytes(const ModelLayout& layout, int block, const StateOptions& options);
  /// True if arrivals of this block carry norms.
  static bool measures(const ModelLayout& layout, int block, const StateOptions& options);

  void begin_step();
  /// Accumulators of all blocks of a unit, zero.
  [[nodiscard]] GradientLease acquire(int unit, Stream& compute, const Tag& tag);
  /// Sends the accumulators home. Returns the blocks whose gradient is now complete for the step.
  [[nodiscard]] std::vector<Arrival> offload(GradientLease lease, const Tag& tag);
  /// Bytes that have crossed this rank's link so far.
  [[nodiscard]] std::size_t offloaded_bytes() const { return offloaded_bytes_; }

 private:
  [[nodiscard]] SlotRing& ring_of(int block);
  void reduce(Lease& lease, int block, const Tag& tag);
  [[nodiscard]] ConstTensorView shard_of(const Lease& lease, int block) const;
  [[nodiscard]] TensorView sum_in(const Lease& lease, int block) const;
  void add_on_device(Lease contribution, int block, const Tag& tag);
  [[nodiscard]] TensorView landing_place(int block, Lease& slot);
  [[nodiscard]] Lease send_home(const ConstTensorView& shard, int block, const TensorView& home,
                                const Tag& tag);
  void round_away(const ConstTensorView& shard, const TensorView& home, const TensorView& norms,
                  const Tag& tag);
  void add_on_host(Lease& lease, int block, int arrived, const Tag& tag);
  void round_home(int block, const Tag& tag);

  TrainingState& state_;
  Communicator& ranks_;
  Kernels& kernels_;
  Kernels& host_kernels_;
  Device& device_;
  SlotRing embedding_;
  SlotRing layers_;
  SlotRing head_;
  std::byte* rounded_ = nullptr;  ///< device, kChunkBytes: a chunk in the gradient dtype (out-lane)
  std::byte* passing_ = nullptr;  ///< device: a gradient of a resident layer without a home
  TensorView norms_;  ///< device: squared norms of the block that is leaving (out-lane), f64
  std::vector<SlotRing> home_norms_;  ///< pinned, per block: the same on the host, or no slot
  std::vector<SlotRing> sums_;    ///< device, per block: [n] A where the device adds, or no slot
  std::vector<Lease> open_sums_;  ///< per block: from its first contribution of a step to its last
  SlotRing ring_;                 ///< pinned gradients of layers that have no home
  SlotRing landing_;              ///< pinned chunks: contributions that are added on the host
  std::vector<int> arrivals_;     ///< per block, of this step
  std::size_t offloaded_bytes_ = 0;
};

}  // namespace strata
