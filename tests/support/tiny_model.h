// The smallest model that has every irregularity: the model of most tests above the operators.
#pragma once

#include <cstddef>

#include "strata/model/config.h"

namespace strata::test {

/// A model that runs in milliseconds with odd sizes everywhere: 3 layers, grouped-query attention,
/// heads that do not add up to the width, vocabulary 61. If it is `tied`, the head is the
/// embedding.
[[nodiscard]] inline LlamaConfig tiny_model(bool tied = false) {
  LlamaConfig m;
  m.vocab_size = 61;
  m.hidden_size = 20;
  m.intermediate_size = 27;
  m.num_hidden_layers = 3;
  m.num_attention_heads = 4;
  m.num_key_value_heads = 2;
  m.head_dim = 6;
  m.max_position_embeddings = 16;
  m.tie_word_embeddings = tied;
  m.initializer_range = 0.2;
  return m;
}

/// Gives the layers all that families add to a LLaMA's: norms on both sides and of heads, biases,
/// windows in layers that rotate otherwise, and a cap of logits.
inline void enrich(LlamaConfig& m) {
  m.model_type = ModelType::kGemma3;
  m.attention_bias = true;
  m.sliding_window = 3;
  m.layer_types.emplace(static_cast<std::size_t>(m.num_hidden_layers), kWindowLayer);
  m.layer_types->at(1) = kFullLayer;
  m.rope_local_base_freq = 100;
  m.query_pre_attn_scalar = 5;
  m.final_logit_softcapping = 4;
}

}  // namespace strata::test
