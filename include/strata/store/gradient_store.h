// The gradient store takes gradients from the device, where backward adds them up, to their homes,
// where the optimizer reads them. The schedule acquires the accumulators of a unit, has the model
// add to them and offloads them; what is then complete comes back as arrivals for the optimizer.
// The store owns accumulators, sums and the gradient ring; the homes belong to the training state.
// All calls come from the submitting thread and none of them blocks.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "strata/comm/rank_groups.h"
#include "strata/device/slot_ring.h"
#include "strata/model/unit_views.h"
#include "strata/ops/kernels.h"
#include "strata/store/training_state.h"

namespace strata {

/// The lease is the right to add to the gradients of one unit on the compute lane, until it is
/// offloaded.
struct GradientLease {
  UnitId unit;
  std::vector<Lease> leases;  ///< one per block of the unit, empty if nobody trains the block
  UnitGradients views;        ///< views of the accumulators, A, on the device, or absent likewise
};

/// Says that the gradient of a block is complete for this step, at its home, once `event` has
/// passed.
struct Arrival {
  BlockId block;
  ConstTensorView gradient;  ///< [n] BlockPlan::gradient_dtype, what the optimizer reads
  Lease slot;                ///< of the ring, held by who reads it there; absent in a home
  Event event;
  /// [SquaredNorm::partials(n)] f64, pinned: what SquaredNorm made of the gradient; valid once
  /// `event` has passed. Absent if the device never had the complete gradient.
  ConstTensorView norms;
  Lease norms_lease;  ///< of `norms`: who reads them uses it
};

/// Sums gradients and sends them home. Device accumulators in A go (through a reduce-scatter over
/// the ranks that shard the state, and an all-reduce over replicas) to home shards. Replicas add
/// once a step, the sum of all contributions, or each contribution where the host takes the sum.
/// The contributions of a step to a block (of passes, and of both ends of tied embeddings) are
/// summed in A, on the device or on the host, with the same bits; after the last one the sum is
/// rounded to the gradient dtype, once. A gradient that is complete on the device is rounded there,
/// and the device then also takes its squared norm. A gradient whose home is the ring has its slot
/// until the lease of its arrival ends; one whose home is the passing place has that until the next
/// one comes on the out lane.
class GradientStore {
 public:
  /// This is the memory of accumulators, and of places on the way home. What a plan does not need
  /// has no slots or no bytes.
  struct Memory {
    Memory(const ModelLayout& layout, const StatePlan& plan, int layer_slots, Allocator& memory);

    SlotRing embedding;  ///< device: accumulators, [padded] A each; so are the next two
    SlotRing layers;
    SlotRing head;
    std::byte* rounded = nullptr;  ///< device: a chunk, or less if no shard has one (out lane)
    std::byte* passing = nullptr;  ///< device: a gradient whose home is kPassing
    TensorView norms;  ///< device: squared norms of the block that is leaving (out lane), f64
    SlotRing ring;     ///< pinned: gradients whose home is kRing
    SlotRing landing;  ///< pinned chunks: contributions that are added on the host
    PerBlock<SlotRing> home_norms;  ///< pinned: squared norms on the host, or no slot
    PerBlock<SlotRing> sums;        ///< device: [n] A where the device adds, or no slot
  };

  /// Takes its memory from `arenas`, with `layer_slots` accumulators that the layers share.
  /// `kernels` run on device lanes, `host_kernels` on the host lane. The arguments outlive the
  /// store. Throws OutOfMemory.
  GradientStore(TrainingState& state, GroupCollectives& collectives, Kernels& kernels,
                Kernels& host_kernels, Arenas& arenas, int layer_slots);
  /// Returns the most partial sums of squares, over all blocks, that the host must take itself
  /// because the device never has the complete gradient.
  static std::int64_t host_partials(const ModelLayout& layout, const StatePlan& plan);

  /// Starts to count the contributions of a step anew.
  void begin_step();
  /// Returns whether a block of the unit is trained.
  [[nodiscard]] bool trains(UnitId unit) const;
  /// Returns the accumulators of the trained blocks of a unit, set to zero on `compute`.
  [[nodiscard]] GradientLease acquire(UnitId unit, Stream& compute, const Tag& tag);
  /// Sends the accumulators of a unit on their way, and returns the blocks whose gradient is
  /// complete for the step with that. Throws std::logic_error if every slot of the gradient ring is
  /// in use.
  [[nodiscard]] std::vector<Arrival> offload(GradientLease lease, const Tag& tag);
  /// Returns the bytes that have gone over this rank's link to the host so far.
  [[nodiscard]] std::size_t offloaded_bytes() const { return offloaded_bytes_; }

 private:
  [[nodiscard]] SlotRing& ring_of(BlockId block);
  void reduce(Lease& lease, BlockId block, const Tag& tag);
  void sum_over_replicas(Lease& lease, const TensorView& shard, const Tag& tag);
  [[nodiscard]] TensorView shard_of(const Lease& lease, BlockId block) const;
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
  GroupCollectives& collectives_;
  Kernels& kernels_;
  Kernels& host_kernels_;
  Device& device_;
  Memory memory_;
  PerBlock<Lease> open_sums_;  ///< from a sum's first contribution of a step to its last
  PerBlock<int> arrivals_;     ///< contributions that have arrived in this step
  std::size_t offloaded_bytes_ = 0;
};

}  // namespace strata
