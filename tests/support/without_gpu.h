// Skips a test for a GPU where there is none, and says so.
#pragma once

#include "strata/ops/backend.h"
#include "support/catch.h"

namespace strata::test {

/// Returns whether there is no GPU to test on, and then says so.
[[nodiscard]] inline bool without_gpu() {
  if (cuda_available()) return false;
  WARN("skipped: this program has no CUDA backend, or there is no device");
  return true;
}

}  // namespace strata::test
