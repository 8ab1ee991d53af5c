// What tests of the generator and of the scorer share: a small model, prompts, and the ways in
// which weights, keys and values may be laid out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "strata/base/random.h"
#include "strata/complete/scorer.h"
#include "strata/plan/generation_setup.h"
#include "support/tiny_generation.h"
#include "support/tiny_model.h"

namespace strata::test {

inline LlamaConfig long_model() {
  LlamaConfig model = tiny_model();
  model.max_position_embeddings = 64;
  model.num_hidden_layers = 4;
  return model;
}

/// The same with windows that most tokens leave, in all layers but one.
inline LlamaConfig windowed_model() {
  LlamaConfig model = long_model();
  model.model_type = ModelType::kQwen2;
  model.sliding_window = 7;
  model.layer_types = {kWindowLayer, kFullLayer, kWindowLayer, kWindowLayer};
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

inline GenerationNeeds needs(DType compute, KvDType kv_dtype = KvDType::kAuto) {
  return {.compute = compute,
          .kv_dtype = kv_dtype,
          .sequences = 4,
          .context = 40,
          .cell_tokens = 6,
          .sweep_tokens = 17,
          .penalties = true,
          .window_step = 3};
}

/// The first layout in all places: everything on the device; weights streamed; keys and values
/// fetched; and both.
inline std::vector<GenerationNeeds> in_all_places(const GenerationNeeds& first) {
  std::vector<GenerationNeeds> all(4, first);
  all[1].resident_units = 0;
  all[2].kv_slots = 2;
  all[2].groups = 2;
  all[3].resident_units = 3;
  all[3].kv_slots = 3;
  all[3].groups = 4;
  return all;
}

/// Keys and values on the host, which attends there, in the last layouts in some of the layers
/// alone: few and many groups, weights on the device and streamed, small cells and large ones.
inline std::vector<GenerationNeeds> attended_on_host(const GenerationNeeds& first) {
  std::vector<GenerationNeeds> all(3, first);
  all[0].kv_slots = 2;
  all[0].groups = 2;
  all[1].resident_units = 0;
  all[1].kv_slots = 3;
  all[1].groups = 4;
  all[2].resident_units = 2;
  all[2].kv_slots = 1;
  all[2].groups = 1;
  all[2].sequences = 9;
  all[2].cell_tokens = 100;
  all[2].sweep_tokens = 200;
  for (std::size_t i = 0; i < 3; ++i) {
    all.push_back(all[i]);
    all.back().fetched_layers = i == 1 ? 1 : 2;
  }
  for (GenerationNeeds& needs : all) needs.host_attention = true;
  return all;
}

/// All places, and more sequences in larger cells.
inline std::vector<GenerationNeeds> layouts(DType compute, KvDType kv_dtype = KvDType::kAuto) {
  std::vector<GenerationNeeds> all = in_all_places(needs(compute, kv_dtype));
  all.push_back(all.front());
  all.back().sequences = 9;
  all.back().cell_tokens = 100;
  all.back().sweep_tokens = 200;
  return all;
}

/// What a layout is for scores.
inline GenerationNeeds scoring(GenerationNeeds needs) {
  needs.scores = true;
  needs.penalties = false;
  return needs;
}

using Logprobs = std::vector<std::vector<double>>;

/// Returns the scores of each request.
inline Logprobs score(TinyGeneration& generation, const std::vector<ScoreRequest>& requests) {
  Logprobs all(requests.size());
  std::size_t taken = 0;
  Scorer scorer(generation.engine());
  scorer.run(
      [&]() -> std::optional<ScoreRequest> {
        if (taken == requests.size()) return std::nullopt;
        return requests[taken++];
      },
      [&](std::size_t sequence, std::span<const double> logprobs) {
        all.at(sequence).assign(logprobs.begin(), logprobs.end());
      });
  return all;
}

}  // namespace strata::test
