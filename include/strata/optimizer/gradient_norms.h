// Takes the squared norm of every gradient that arrives in a step. The device has taken it where it
// had the complete gradient; else the host measures the gradient at its home. The optimizer calls
// measure() on the submitting thread and reads the sums inside tasks of the host lane.

#pragma once

#include "strata/ops/kernels.h"
#include "strata/store/gradient_store.h"
#include "strata/store/training_state.h"

namespace strata {

/// Holds the squared norms of this rank's gradients, block by block.
class GradientNorms {
 public:
  /// This is the memory for the gradient that the host measures.
  struct Memory {
    Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory);

    TensorView partials;  ///< pageable [most partial sums of a block] f64
  };

  /// `host_kernels` run on `host`, the host lane. The arguments and the owner of the memory outlive
  /// the norms.
  GradientNorms(const TrainingState& state, Kernels& host_kernels, Stream& host,
                const Memory& memory);

  /// Submits the sum of a gradient's squares on the host lane, which has waited for the arrival.
  /// Ends the lease of the arrival's norms.
  void measure(Arrival& arrival, const Tag& tag);

  /// Returns the squared norm of a block's gradient. Called on the host lane.
  [[nodiscard]] double squared(BlockId block) const { return squared_[block]; }
  /// Returns what this rank adds to the squared norm of the whole gradient: the sum over its shards
  /// of all blocks, or 0 if it belongs to a replica other than the first, which has the same
  /// gradients. Called on the host lane.
  [[nodiscard]] double sum() const;

 private:
  const TrainingState& state_;
  Kernels& host_kernels_;
  Stream& host_;
  TensorView partials_;
  PerBlock<double> squared_;
};

}  // namespace strata
