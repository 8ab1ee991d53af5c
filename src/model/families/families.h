// Declares the functions that make the specs of families, each in a file of its own.
#pragma once

#include "strata/model/config.h"
#include "strata/model/spec.h"

namespace strata {

[[nodiscard]] ModelSpec llama_spec(const LlamaConfig& config);
[[nodiscard]] ModelSpec phi3_spec(const LlamaConfig& config);

}  // namespace strata
