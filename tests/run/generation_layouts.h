// What tests of the generator and of the scorer share: a small model, prompts, and the ways in
// which weights, keys and values may be laid out.
#pragma once

#include <cstdint>
#include <vector>

#include "strata/base/random.h"
#include "strata/plan/generation_setup.h"
#include "support/tiny_model.h"

namespace strata::test {

inline LlamaConfig long_model() {
  LlamaConfig model = tiny_model();
  model.max_position_embeddings = 64;
  model.num_hidden_layers = 4;
  return model;
}

inline std::vector<std::int32_t> random_prompt(std::uint64_t stream, std::int64_t length) {
  std::vector<std::int32_t> ids;
  const auto vocabulary = static_cast<std::uint64_t>(tiny_model().vocab_size);
  for (std::int64_t i = 0; i < length; ++i) {
    ids.push_back(static_cast<std::int32_t>(random_bits(9, stream, static_cast<std::uint64_t>(i)) %
                                            vocabulary));
  }
  return ids;
}

inline GenerationNeeds needs(DType compute) {
  return {.compute = compute,
          .sequences = 4,
          .context = 40,
          .cell_tokens = 6,
          .sweep_tokens = 17,
          .penalties = true};
}

/// Everything on the device; weights streamed; keys and values fetched; and both.
inline std::vector<GenerationNeeds> layouts(DType compute) {
  std::vector<GenerationNeeds> all(5, needs(compute));
  all[1].resident_units = 0;
  all[2].kv_slots = 2;
  all[2].groups = 2;
  all[3].resident_units = 3;
  all[3].kv_slots = 3;
  all[3].groups = 4;
  all[4].sequences = 9;
  all[4].cell_tokens = 100;
  all[4].sweep_tokens = 200;
  return all;
}

}  // namespace strata::test
