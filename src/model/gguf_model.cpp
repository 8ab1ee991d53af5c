// Says how llama.cpp calls the tensors of a model and what it must be told of it, by the table of
// its architectures.

#include "strata/model/gguf_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "gguf_architectures.h"
#include "gguf_refusals.h"
#include "strata/model/families.h"
#include "strata/model/rope_table.h"
#include "strata/model/spec.h"

namespace strata {
namespace {

// ---- keys ----

void add_scaling(const RopeScaling& scaling, const std::string& prefix, GgufKeys& keys) {
  const bool is_yarn = scaling.rope_type == RopeType::kYarn;
  const bool is_longrope = scaling.rope_type == RopeType::kLongRope;
  if (scaling.rope_type != RopeType::kLinear && !is_yarn && !is_longrope) return;
  keys.add_text(prefix + "rope.scaling.type", enum_name(kRopeTypeNames, scaling.rope_type));
  if (!is_longrope) keys.add_number(prefix + "rope.scaling.factor", scaling.factor);
  if (scaling.rope_type == RopeType::kLinear) return;
  keys.add_count(prefix + "rope.scaling.original_context_length",
                 scaling.original_max_position_embeddings);
  double magnitude = scaling.magnitude();
  if (is_yarn) {
    keys.add_number(prefix + "rope.scaling.yarn_beta_fast", scaling.beta_fast);
    keys.add_number(prefix + "rope.scaling.yarn_beta_slow", scaling.beta_slow);
    // llama.cpp multiplies cosines and sines by yarn's own magnitude for the factor as well.
    magnitude /= 1.0 + 0.1 * std::log(scaling.factor);
  }
  keys.add_number(prefix + "rope.scaling.attn_factor", magnitude);
}

void add_multipliers(const ModelSpec& spec, const std::string& prefix, GgufKeys& keys) {
  const LayerSpec& layer = spec.common();
  keys.add_number(prefix + "embedding_scale", spec.embedding_scale);
  keys.add_number(prefix + "residual_scale", layer.linear(LinearId::kDown).multiplier);
  keys.add_number(prefix + "attention.scale", layer.attention.scale);
  keys.add_number(prefix + "logit_scale", 1 / spec.logits_scale);  // logits are divided by it
}

/// Returns the rotation of the layers without a window, or that of all if all have one.
const RopeSpec& rope_of(const ModelSpec& spec) {
  for (const LayerSpec& kind : spec.kinds) {
    if (kind.attention.window == 0) return kind.attention.rope;
  }
  return spec.common().attention.rope;
}

/// Adds the window, the layers that have it, and their theta. Where no layer has one, all get a
/// window that hides nothing, because llama.cpp does not run these architectures without.
void add_windows(const LlamaConfig& config, const ModelSpec& spec, const std::string& prefix,
                 GgufKeys& keys) {
  const LayerSpec* const kind = windowed_kind(spec);
  std::vector<std::int32_t> has_window;
  for (int layer = 0; layer < spec.layers(); ++layer) {
    has_window.push_back(kind == nullptr || spec.layer(layer).attention.window > 0 ? 1 : 0);
  }
  const std::int64_t all = config.max_position_embeddings;
  keys.add_count(prefix + "attention.sliding_window",
                 kind == nullptr ? all : std::min(kind->attention.window, all));
  keys.add_integers(prefix + "attention.sliding_window_pattern", has_window);
  keys.add_number(prefix + "rope.freq_base_swa",
                  (kind == nullptr ? spec.common() : *kind).attention.rope.theta);
}

GgufKeys keys_of(const LlamaConfig& config, const ModelSpec& spec, const GgufArchitecture& as) {
  const AttentionSpec& attention = spec.common().attention;
  const RopeSpec& rope = rope_of(spec);
  const std::string prefix = std::string(as.name) + '.';
  GgufKeys keys;
  keys.add_count(prefix + "vocab_size", spec.vocabulary);
  keys.add_count(prefix + "context_length", config.max_position_embeddings);
  keys.add_count(prefix + "embedding_length", spec.width);
  keys.add_count(prefix + "block_count", spec.layers());
  keys.add_count(prefix + "feed_forward_length", spec.common().linear(LinearId::kDown).in);
  keys.add_count(prefix + "attention.head_count", attention.heads);
  keys.add_count(prefix + "attention.head_count_kv", attention.kv_heads);
  keys.add_count(prefix + "attention.key_length", attention.head_size);
  keys.add_count(prefix + "attention.value_length", attention.head_size);
  keys.add_number(prefix + "attention.layer_norm_rms_epsilon", spec.norm_eps);
  keys.add_count(prefix + "rope.dimension_count", rope.width);
  keys.add_number(prefix + "rope.freq_base", rope.theta);
  if (rope.scaling) add_scaling(*rope.scaling, prefix, keys);
  if (as.has_multipliers) add_multipliers(spec, prefix, keys);
  if (windowed_kind(spec) != nullptr || as.windows == Windows::kGemma2) {
    add_windows(config, spec, prefix, keys);
  }
  if (attention.score_cap > 0) {
    keys.add_number(prefix + "attn_logit_softcapping", attention.score_cap);
  }
  if (spec.logits_cap > 0) keys.add_number(prefix + "final_logit_softcapping", spec.logits_cap);
  if (config.llama_4_scaling_beta != 0) {
    keys.add_number(prefix + "attention.temperature_scale", config.llama_4_scaling_beta);
  }
  return keys;
}

/// Returns what the frequencies of pairs are divided by where keys do not say it.
std::vector<GgufVector> rope_factors_of(const RopeSpec& rope) {
  if (!rope.scaling) return {};
  const auto floats = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  if (rope.scaling->rope_type == RopeType::kLongRope) {
    return {{"rope_factors_long.weight", floats(rope.scaling->long_factor)},
            {"rope_factors_short.weight", floats(rope.scaling->short_factor)}};
  }
  if (rope.scaling->rope_type != RopeType::kLlama3) return {};
  constexpr std::int64_t kAnyRow = 0;  // of which llama3 makes no difference
  std::vector<double> factors =
      rope_frequencies({.width = rope.width, .theta = rope.theta, .scaling = {}}, kAnyRow);
  const std::vector<double> scaled = rope_frequencies(rope, kAnyRow);
  for (std::size_t i = 0; i < factors.size(); ++i) factors[i] /= scaled[i];
  return {{"rope_freqs.weight", floats(factors)}};
}

// ---- tensors ----

constexpr EnumName<NormId> kGgufNorms[] = {{NormId::kAttention, "attn_norm"},
                                           {NormId::kQuery, "attn_q_norm"},
                                           {NormId::kKey, "attn_k_norm"},
                                           {NormId::kAttentionOut, "post_attention_norm"},
                                           {NormId::kMlpOut, "post_ffw_norm"}};
static_assert(std::size(kGgufNorms) == kNorms - 1);  // without kMlp

std::string name_of_norm(NormId id, const GgufArchitecture& as) {
  return std::string(id == NormId::kMlp ? as.mlp_norm : enum_name(kGgufNorms, id));
}

/// The names of the tensors of a linear that has so many sources.
struct LinearNames {
  LinearId id;
  std::size_t sources;
  std::array<std::string_view, 3> names;
};
constexpr LinearNames kGgufLinears[] = {
    {LinearId::kQkv, 3, {"attn_q", "attn_k", "attn_v"}},
    {LinearId::kQkv, 1, {"attn_qkv"}},
    {LinearId::kAttentionOut, 1, {"attn_output"}},
    {LinearId::kGateUp, 2, {"ffn_gate", "ffn_up"}},
    {LinearId::kGateUp, 1, {"ffn_up"}},
    {LinearId::kDown, 1, {"ffn_down"}},
};

const LinearNames& names_of(const Linear& linear) {
  for (const LinearNames& row : kGgufLinears) {
    if (row.id == linear.id && row.sources == linear.sources.size()) return row;
  }
  throw std::logic_error("a linear of this family has no names in GGUF yet");
}

/// Lists the tensors of one layer.
class LayerTensors {
 public:
  LayerTensors(const ModelSpec& spec, int number, const GgufArchitecture& as,
               std::vector<GgufPlace>& places)
      : layer_(spec.layer(number)),
        norm_offset_(spec.norm_offset),
        source_(spec.layer_prefix + std::to_string(number) + '.'),
        name_("blk." + std::to_string(number) + '.'),
        as_(as),
        places_(places) {}

  void add() {
    for (const Norm& norm : layer_.norms) {
      places_.push_back({.source = source_ + norm.source,
                         .name = name_ + name_of_norm(norm.id, as_) + ".weight",
                         .shape = {norm.width},
                         .offset = norm_offset_});
    }
    for (const Linear& linear : layer_.linears) {
      add(linear, linear.sources, ".weight");
      add(linear, linear.bias_sources, ".bias");
    }
  }

 private:
  void add(const Linear& linear, const std::vector<SourceTensor>& sources, std::string_view end) {
    const LinearNames& row = names_of(linear);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      GgufPlace place{.source = source_ + sources[i].name,
                      .name = name_ + std::string(row.names.at(i)) + std::string(end),
                      .shape = {sources[i].rows}};
      if (end == ".weight") place.shape.push_back(linear.in);
      const bool is_rotated = row.sources == 3 && i < 2;  // queries and keys
      const bool rotates_halves = layer_.attention.rope.pairs == RopePairs::kHalves;
      if (is_rotated && rotates_halves && as_.rotation == Rotation::kPairs) {
        place.interleaved_rows = layer_.attention.head_size;
      }
      places_.push_back(std::move(place));
    }
  }

  const LayerSpec& layer_;
  double norm_offset_;
  std::string source_;
  std::string name_;
  const GgufArchitecture& as_;
  std::vector<GgufPlace>& places_;
};

}  // namespace

GgufModel gguf_model_of(const LlamaConfig& config) {
  const GgufArchitecture& as = require_gguf_architecture(config.model_type);
  const ModelSpec spec = spec_of(config);
  require_expressible(config, spec, as);

  GgufModel model{.architecture = std::string(as.name),
                  .keys = keys_of(config, spec, as),
                  .tensors = {},
                  .rope_factors = rope_factors_of(rope_of(spec))};
  const std::vector<std::int64_t> vocabulary{spec.vocabulary, spec.width};
  model.tensors.push_back({spec.embedding, "token_embd.weight", vocabulary});
  for (int layer = 0; layer < spec.layers(); ++layer) {
    LayerTensors(spec, layer, as, model.tensors).add();
  }
  model.tensors.push_back({.source = spec.final_norm,
                           .name = "output_norm.weight",
                           .shape = {spec.width},
                           .offset = spec.norm_offset});
  if (!spec.tied()) model.tensors.push_back({spec.projection, "output.weight", vocabulary});
  return model;
}

}  // namespace strata
