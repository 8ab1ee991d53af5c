// The rules of run.products and run.products_bf16.

#pragma once

#include "strata/config/config.h"

namespace strata {

/// Adds what contradicts run.dtype or names nothing of the model.
void check_products(const RunConfig& config, ConfigProblems& problems);
/// Adds what the cuda backend cannot multiply.
void check_cuda_products(const RunConfig& config, ConfigProblems& problems);

}  // namespace strata
