// Tests the numbers of one update against products that are taken factor by factor.

#include "strata/optimizer/adamw_scalars.h"

#include <cstdint>
#include <set>

#include "support/catch.h"

namespace strata::test {

TEST_CASE("bias corrections are one minus the powers of beta") {
  OptimizerOptions options;
  options.beta1 = 0.9;
  options.beta2 = 0.999;
  long double power1 = 1;
  long double power2 = 1;
  for (std::int64_t t = 1; t <= 1000; ++t) {
    power1 *= static_cast<long double>(options.beta1);
    power2 *= static_cast<long double>(options.beta2);
    const AdamWScalars scalars = adamw_scalars(options, {.number = t});
    REQUIRE(scalars.correction1 == Approx(static_cast<double>(1 - power1)).epsilon(1e-13));
    REQUIRE(scalars.correction2 == Approx(static_cast<double>(1 - power2)).epsilon(1e-12));
  }
}

TEST_CASE("an update has the learning rate and factor of its step and the options of its run") {
  OptimizerOptions options;
  options.beta1 = 0.8;
  options.beta2 = 0.7;
  options.eps = 1e-3;
  const AdamWScalars scalars =
      adamw_scalars(options, {.number = 3, .lr = 0.5, .grad_factor = 0.25, .applied = false});
  CHECK(scalars.lr == 0.5);
  CHECK(scalars.beta1 == 0.8);
  CHECK(scalars.beta2 == 0.7);
  CHECK(scalars.eps == 1e-3);
  CHECK(scalars.grad_factor == 0.25);
  CHECK(scalars.apply == 0);
  CHECK(adamw_scalars(options, {.number = 3}).apply == 1);
}

TEST_CASE("the rounding of an update depends on its number and the seed alone") {
  OptimizerOptions options;
  std::set<std::uint64_t> seeds;
  for (options.seed = 0; options.seed < 3; ++options.seed) {
    for (std::int64_t t = 0; t < 100; ++t) {
      const std::uint64_t seed = adamw_scalars(options, {.number = t}).rounding_seed;
      seeds.insert(seed);
      CHECK(adamw_scalars(options, {.number = t, .lr = 2, .grad_factor = 3, .applied = false})
                .rounding_seed == seed);
    }
  }
  CHECK(seeds.size() == 300);
}

}  // namespace strata::test
