// A model that generates on paper: four layers of a 7B, and its setups. Tests of predicted
// generation and of what is chosen by it share them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "strata/model/config.h"
#include "strata/plan/generation_setup.h"

namespace strata::test {

[[nodiscard]] inline LlamaConfig large_llama() {
  LlamaConfig m;
  m.vocab_size = 32000;
  m.hidden_size = 4096;
  m.intermediate_size = 11008;
  m.num_hidden_layers = 4;
  m.num_attention_heads = 32;
  m.num_key_value_heads = 8;
  m.max_position_embeddings = 4096;
  return m;
}

/// Returns the setup of so many sequences of `context` tokens within a limit of the device.
[[nodiscard]] inline GenerationSetup within(std::optional<std::size_t> device_bytes,
                                            std::int64_t sequences, std::int64_t context,
                                            std::optional<int> kv_slots = {},
                                            bool host_attention = false,
                                            KvDType kv_dtype = KvDType::kAuto) {
  Budget budget;
  budget.device_limit = device_bytes;
  return make_generation_setup(large_llama(),
                               {.compute = DType::kBF16,
                                .kv_dtype = kv_dtype,
                                .sequences = sequences,
                                .context = context,
                                .kv_slots = kv_slots,
                                .host_attention = host_attention},
                               budget);
}

}  // namespace strata::test
