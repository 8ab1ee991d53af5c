// Skips a test of products in e4m3 on a GPU that computes none.
#pragma once

#include "strata/op_checks/checks.h"
#include "support/catch.h"

namespace strata::test {

/// Returns whether the backend computes no products in e4m3, and requires that it then says which
/// GPUs do.
[[nodiscard]] inline bool without_fp8(OpRunner& runner) {
  try {
    check_fp8_matmul(runner, DType::kBF16, MatmulUpdate::kOverwrite, {16, 16, 16}, false);
    return false;
  } catch (const BackendError& error) {
    REQUIRE_THAT(error.what(), ContainsSubstring("operator matmul") &&
                                   (ContainsSubstring("need a GPU of compute capability 9.0") ||
                                    ContainsSubstring("built with CUDA 12.9")));
    WARN("skipped: " << error.what());
    return true;
  }
}

}  // namespace strata::test
