// Declares the functions that make the specs of families, each in a file of its own.
#pragma once

#include "strata/model/config.h"
#include "strata/model/spec.h"

namespace strata {

[[nodiscard]] ModelSpec llama_spec(const LlamaConfig& config);
[[nodiscard]] ModelSpec phi3_spec(const LlamaConfig& config);
[[nodiscard]] ModelSpec qwen2_spec(const LlamaConfig& config);
[[nodiscard]] ModelSpec qwen3_spec(const LlamaConfig& config);
[[nodiscard]] ModelSpec granite_spec(const LlamaConfig& config);
[[nodiscard]] ModelSpec olmo2_spec(const LlamaConfig& config);
[[nodiscard]] ModelSpec gemma_spec(const LlamaConfig& config);
[[nodiscard]] ModelSpec smollm3_spec(const LlamaConfig& config);
[[nodiscard]] ModelSpec glm4_spec(const LlamaConfig& config);
[[nodiscard]] ModelSpec exaone4_spec(const LlamaConfig& config);
[[nodiscard]] ModelSpec olmo3_spec(const LlamaConfig& config);
[[nodiscard]] ModelSpec gemma2_spec(const LlamaConfig& config);
[[nodiscard]] ModelSpec gemma3_spec(const LlamaConfig& config);

/// Gives the linear a bias: beside each source "<name>.weight" there is a "<name>.bias".
void give_bias(Linear& linear);

}  // namespace strata
