// The smallest model that has every irregularity: the model of most tests above the operators.
#pragma once

#include "strata/model/config.h"

namespace strata::test {

/// A model that runs in milliseconds with odd sizes everywhere: 3 layers, grouped-query attention,
/// heads that do not add up to the width, vocabulary 61.
[[nodiscard]] inline LlamaConfig tiny_model() {
  LlamaConfig m;
  m.vocab_size = 61;
  m.hidden_size = 20;
  m.intermediate_size = 27;
  m.num_hidden_layers = 3;
  m.num_attention_heads = 4;
  m.num_key_value_heads = 2;
  m.head_dim = 6;
  m.max_position_embeddings = 16;
  m.initializer_range = 0.2;
  return m;
}

}  // namespace strata::test
