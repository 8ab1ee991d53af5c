// The bias corrections of AdamW (Loshchilov and Hutter, 2019), and the seed of an update's
// rounding.

#include "strata/optimizer/adamw_scalars.h"

#include <cmath>

#include "strata/base/random.h"

namespace strata {

namespace {

/// The seeds that round moments come from this random stream. Initial weights and samples draw
/// from others.
constexpr std::uint64_t kRoundingSeeds = 0x6d6f6d656e7473;  // "moments"

}  // namespace

AdamWScalars adamw_scalars(const OptimizerOptions& options, const OneUpdate& update) {
  const auto t = static_cast<double>(update.number);
  return {.lr = update.lr,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .eps = options.eps,
          .correction1 = 1.0 - std::pow(options.beta1, t),
          .correction2 = 1.0 - std::pow(options.beta2, t),
          .grad_factor = update.grad_factor,
          .apply = update.applied ? 1 : 0,
          .rounding_seed =
              random_bits(options.seed, kRoundingSeeds, static_cast<std::uint64_t>(update.number))};
}

}  // namespace strata
