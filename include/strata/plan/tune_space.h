// What `tune` may change of a run: how many tokens go through a layer at once, how a step is cut
// into sub-batches and passes, when parameters are updated, how long their gradients wait, and, if
// somebody allows it, in how many bits a run stores and multiplies. What the planner decides by
// itself (choose_placement.h) is not among it.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/dtype.h"
#include "strata/config/config.h"

namespace strata {

/// In how many bits a run stores and multiplies.
struct TuneNumbers {
  DType moment_dtype = DType::kF32;
  MasterWeights master = MasterWeights::kSplit;
  Products products = Products::kPlain;
  Form base_format = Form::kPlain;  ///< of a run with adapters

  bool operator==(const TuneNumbers&) const = default;
};

/// Values of the keys that are searched.
struct TuneKeys {
  std::int64_t rows = 1;
  std::int64_t sub_batches = 1;
  std::int64_t passes = 1;
  UpdateTiming timing = UpdateTiming::kBeforeUse;
  std::optional<std::int64_t> gradient_ring{};
  GradientSums gradient_sums = GradientSums::kAuto;  ///< kDevice where a ring needs it
  TuneNumbers numbers{};

  /// Returns the values that a config has.
  [[nodiscard]] static TuneKeys of(const RunConfig& config);
  /// Returns a config with these values.
  [[nodiscard]] RunConfig put_into(RunConfig config) const;
  bool operator==(const TuneKeys&) const = default;
};

/// Which keys are searched, and how many rows a rank has in a step.
struct TuneSpace {
  std::int64_t step_rows = 1;  ///< rows * sub_batches * passes of all candidates
  bool rows = true;
  bool sub_batches = true;
  bool passes = true;
  bool timing = true;
  bool gradient_ring = true;
  // These change the numbers of a run, so somebody has to allow them.
  bool moment_dtype = false;
  bool master = false;
  bool products = false;
  bool base_format = false;
};

/// Returns the dtypes of moments that take fewer bytes than those of the config and that a bf16 run
/// may have, the widest first; nothing for runs in other types.
[[nodiscard]] std::vector<DType> smaller_moments(const RunConfig& config);

/// Returns every combination of values that a run may have, a key that is not searched with the
/// value of `base`. Numbers of rows and of passes are divisors of the step's, each at least twice
/// the one before it, so that steps with many divisors do not make a search without end. Of equal
/// speed an earlier one is preferred: more bits of moments, masters, products and the base, what is
/// updated once the norm is known, without a ring, in few passes, with sub-batches that fill a GPU.
[[nodiscard]] std::vector<TuneKeys> tune_candidates(const RunConfig& base, const TuneSpace& space);

}  // namespace strata
