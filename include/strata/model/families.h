// The families of models that strata computes (ModelType). Each has a file in src/model/families/
// which says what a model of it is, by its config.
#pragma once

#include "strata/model/config.h"
#include "strata/model/spec.h"

namespace strata {

/// Returns what the model of a valid config is.
[[nodiscard]] ModelSpec spec_of(const LlamaConfig& config);

}  // namespace strata
