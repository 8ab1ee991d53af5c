// The rule knows how the run's optimizer applies to a part of a block: by which operator, which
// learning rate and decay its elements have, and which random stream rounds their moments. All
// updaters submit their updates through it, on whatever lane they choose; the numbers do not depend
// on who calls. It is called by the submitting thread, does not block, and keeps no state of a
// step.

#pragma once

#include <vector>

#include "strata/ops/kernels.h"
#include "strata/optimizer/optimizer_options.h"
#include "strata/optimizer/parameter_groups.h"
#include "strata/store/training_state.h"

namespace strata {

/// Says how an optimizer applies to blocks of one layout.
class UpdateRule {
 public:
  /// These are what one submission needs beside the state.
  struct Numbers {
    const AdamWScalars* scalars = nullptr;  ///< read when the kernel runs
    TensorView nonfinite;                   ///< [1] i32, set if a new weight is not finite
    bool rare = false;                      ///< the update does nothing in almost every step
  };

  /// The layout outlives the rule.
  UpdateRule(const ModelLayout& layout, const OptimizerOptions& options)
      : kind_(options.kind), nesterov_(options.nesterov), runs_(parameter_runs(layout, options)) {}

  /// Submits on `lane` the update of `part`: a shard of the block, or a run of its elements that
  /// begins at part.begin. `gradient` has as many elements. The tensors are where `kernels` can
  /// reach them. Leaves out matrices that are updated as wholes.
  void submit(Kernels& kernels, Stream& lane, BlockId block, const BlockState& part,
              const ConstTensorView& gradient, const Numbers& numbers, const Tag& tag) const;

  /// Returns the runs of a block, in order.
  [[nodiscard]] const std::vector<ParameterRun>& runs(BlockId block) const { return runs_[block]; }

 private:
  OptimizerKind kind_;
  bool nesterov_;
  PerBlock<std::vector<ParameterRun>> runs_;
};

}  // namespace strata
