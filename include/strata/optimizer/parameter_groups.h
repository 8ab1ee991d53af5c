// Parameter groups: the learning rate and the weight decay that tensors have by their names. A
// config lists them as "lm_head.weight=0.5", a name of a Hugging Face folder, in which "*" stands
// for any characters, with a value; the first entry that matches a tensor counts. Rules of a config
// check the lists, and UpdateRule cuts blocks by them, once before the first step.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/base/dtype.h"
#include "strata/base/field_types.h"
#include "strata/model/layout.h"
#include "strata/optimizer/optimizer_options.h"

namespace strata {

/// Consecutive elements of a block that belong to one segment and are updated alike.
struct ParameterRun {
  const Segment* segment = nullptr;
  std::int64_t begin = 0;  ///< in the block
  std::int64_t end = 0;    ///< that of a segment's last run is where the next segment begins
  double lr_factor = 1;
  double weight_decay = 0;
  std::int64_t rows = 0;  ///< of a matrix that kMuon updates as a whole; 0: by elements
};

/// Returns whether kMuon updates what the segment's tensors are as whole matrices: the weights of
/// linears. Norms, biases, embeddings, the head and adapters are updated by elements.
[[nodiscard]] bool has_whole_matrices(const Block& block, const Segment& segment);

/// Returns the runs of every block, in order. Gaps between segments belong to the run before them,
/// and so does all that follows a block's last segment: their weights and gradients are zero and
/// stay zero. Runs point into `layout`.
[[nodiscard]] PerBlock<std::vector<ParameterRun>> parameter_runs(const ModelLayout& layout,
                                                                 const OptimizerOptions& options);

/// Adds a problem for each entry that is none or matches no tensor that is trained, and for tensors
/// that moments of this dtype do not let differ.
void check_parameter_groups(const ModelLayout& layout, const OptimizerOptions& options,
                            DType moment, ConfigProblems& problems);

/// Returns how many tensors are updated with which numbers: "90 tensors with weight decay 0.1, 1
/// tensor with weight decay 0 and lr times 0.5".
[[nodiscard]] std::string parameter_groups_text(const ModelLayout& layout,
                                                const OptimizerOptions& options);

}  // namespace strata
