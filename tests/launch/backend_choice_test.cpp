// Tests what is said where a run goes to the CPU by itself.

#include "strata/launch/backend_choice.h"

#include <string>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/log_text.h"

namespace strata {

TEST_CASE("a program for GPUs that finds none says so loudly, and refuses in a job of SLURM") {
  const auto said = [](const CpuInstead& where) {
    const test::LogText log;
    say_cpu_instead(where, "run.backend");
    return log.text();
  };
  CHECK(said({.built_for_gpus = false}).empty());
  CHECK(said({.built_for_gpus = false, .under_slurm = true}).empty());
  CHECK_THAT(said({.built_for_gpus = true}), ContainsSubstring("EVERYTHING RUNS ON THE CPU") &&
                                                 ContainsSubstring("run.backend=cpu"));
  CHECK_THROWS_WITH(say_cpu_instead({.built_for_gpus = true, .under_slurm = true}, "run.backend"),
                    ContainsSubstring("run.backend: no GPU was found") &&
                        ContainsSubstring("--gpus-per-node=1") &&
                        ContainsSubstring("run.backend=cpu"));
}

TEST_CASE("products in e4m3 are for GPUs of compute capability 9.0 and for the CPU") {
  const DeviceInfo other{.backend = "cuda", .name = "RTX 4090", .capability = 89};
  const DeviceInfo hopper{.backend = "cuda", .name = "H200", .capability = 90};
  for (const Products products : {Products::kFp8, Products::kFp8All}) {
    CHECK_THROWS_WITH(require_products(products, other),
                      ContainsSubstring("run.products: ") && ContainsSubstring("9.0") &&
                          ContainsSubstring("RTX 4090 has 8.9") && ContainsSubstring("\"bf16\""));
    CHECK_THROWS_WITH(require_products(products, other, "leave it out"),
                      ContainsSubstring("8.9; leave it out"));
    CHECK_NOTHROW(require_products(products, hopper));
    CHECK_NOTHROW(require_products(products, {.backend = "cpu", .name = "a processor"}));
  }
  CHECK_NOTHROW(require_products(Products::kPlain, other));
}

}  // namespace strata
