#pragma once

#include <memory>

#include "strata/ops/kernels.h"

namespace strata {

/// Operators that are checked and recorded, and not launched.
[[nodiscard]] std::unique_ptr<Kernels> make_dry_kernels();

}  // namespace strata
