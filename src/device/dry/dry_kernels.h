// Makes the operators of the dry backend, for its maker only.
#pragma once

#include <memory>

#include "strata/ops/kernels.h"

namespace strata {

/// Makes operators that are checked and recorded, and not launched.
[[nodiscard]] std::unique_ptr<Kernels> make_dry_kernels();

}  // namespace strata
