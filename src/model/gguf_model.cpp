// Says what of a model llama.cpp can compute, and how it calls it, by the table of its
// architectures.

#include "strata/model/gguf_model.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "gguf_architectures.h"
#include "strata/base/error.h"
#include "strata/model/families.h"
#include "strata/model/rope_table.h"
#include "strata/model/spec.h"

namespace strata {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& remedy) {
  throw ConfigError("no GGUF file can be made of this model: " + what + "; " + remedy);
}
constexpr const char* kExportFolder = "export it as a Hugging Face folder (--format hf)";

const GgufArchitecture& architecture_of(ModelType type) {
  if (const GgufArchitecture* const found = gguf_architecture_of(type)) return *found;
  refuse("strata does not know how llama.cpp has the family \"" +
             std::string(enum_name(kModelTypeNames, type)) + "\"",
         kExportFolder);
}

// ---- what is refused ----

std::string key_of_bias(LinearId id, const GgufArchitecture& as) {
  if (id == LinearId::kQkv) return "attention_bias";
  if (id != LinearId::kAttentionOut) return "mlp_bias";
  return as.type == ModelType::kSeedOss ? "attention_out_bias" : "attention_bias";
}

void refuse_biases(const ModelSpec& spec, const GgufArchitecture& as) {
  for (const Linear& linear : spec.common().linears) {
    const bool is_qkv = linear.id == LinearId::kQkv;
    if (!linear.has_bias() || (is_qkv ? as.has_qkv_bias : as.has_other_biases)) continue;
    refuse(key_of_bias(linear.id, as) + " is true, and the " + std::string(as.name) +
               " of llama.cpp has no bias of " + std::string(name_of(linear.id)),
           kExportFolder);
  }
}

void refuse_attention(const ModelSpec& spec, const GgufArchitecture& as) {
  const AttentionSpec& attention = spec.common().attention;
  if (!as.any_head_size && attention.query_width() != spec.width) {
    refuse("head_dim is " + std::to_string(attention.head_size) + ", and the " +
               std::string(as.name) +
               " of llama.cpp has only heads of hidden_size / "
               "num_attention_heads = " +
               std::to_string(spec.width / attention.heads),
           kExportFolder);
  }
  for (int layer = 0; layer < spec.layers(); ++layer) {
    if (const std::int64_t window = spec.layer(layer).attention.window; window > 0) {
      refuse("sliding_window is " + std::to_string(window) + ", and the " + std::string(as.name) +
                 " of llama.cpp has no window",
             kExportFolder);
    }
    const bool rotates = as.unrotated_interval == 0 || (layer + 1) % as.unrotated_interval != 0;
    if (spec.layer(layer).attention.rotates == rotates) continue;
    refuse("no_rope_layers says of layer " + std::to_string(layer) +
               (rotates ? " that it does not rotate, and the " : " that it rotates, and the ") +
               std::string(as.name) + " of llama.cpp has every " +
               std::to_string(as.unrotated_interval) + "th layer not rotate",
           kExportFolder);
  }
}

void refuse_projection(const ModelSpec& spec, const GgufArchitecture& as) {
  if (as.projection == (spec.tied() ? Projection::kSeparate : Projection::kEmbedding)) {
    refuse(std::string("tie_word_embeddings is ") + (spec.tied() ? "true" : "false") +
               ", and the " + std::string(as.name) + " of llama.cpp has " +
               (spec.tied() ? "a projection of its own" : "no projection but the embedding"),
           kExportFolder);
  }
}

/// Throws std::logic_error if the spec has what the family's models never have in llama.cpp.
void require_expressible(const ModelSpec& spec, const GgufArchitecture& as) {
  const bool is_gemma = as.type == ModelType::kGemma;  // which has its activation and scale
  const AttentionSpec& attention = spec.common().attention;
  bool expressible =
      spec.common().activation == (is_gemma ? Activation::kGeluTanh : Activation::kSilu);
  if (!as.has_multipliers) {
    const auto head_size = static_cast<double>(attention.head_size);
    expressible = expressible && attention.scale == 1.0 / std::sqrt(head_size) &&
                  spec.logits_scale == 1 && (is_gemma || spec.embedding_scale == 1) &&
                  spec.common().linear(LinearId::kDown).multiplier == 1;
  }
  if (!expressible) throw std::logic_error("this family has no keys in GGUF yet for what it does");
}

void refuse_scaling(const RopeScaling& scaling, const GgufArchitecture& as) {
  const std::string type(enum_name(kRopeTypeNames, scaling.rope_type));
  if (scaling.rope_type == RopeType::kDynamic) {
    refuse("rope_scaling.rope_type is dynamic, which llama.cpp does not have",
           "as far as max_position_embeddings it changes nothing: set rope_scaling to null in the "
           "config.json of an exported folder, and export that");
  }
  const bool reads_factors =
      scaling.rope_type == RopeType::kLlama3     ? as.factors == RopeFactors::kAll
      : scaling.rope_type == RopeType::kLongRope ? as.factors != RopeFactors::kNone
                                                 : true;
  if (!reads_factors) {
    refuse("rope_scaling.rope_type is " + type + ", and the " + std::string(as.name) +
               " of llama.cpp reads no factors of it",
           kExportFolder);
  }
  if (scaling.rope_type == RopeType::kYarn && !scaling.truncate) {
    refuse("rope_scaling.truncate is false, and llama.cpp always truncates", kExportFolder);
  }
}

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

GgufKeys keys_of(const LlamaConfig& config, const ModelSpec& spec, const GgufArchitecture& as) {
  const AttentionSpec& attention = spec.common().attention;
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
  keys.add_count(prefix + "rope.dimension_count", attention.rope.width);
  keys.add_number(prefix + "rope.freq_base", attention.rope.theta);
  if (attention.rope.scaling) add_scaling(*attention.rope.scaling, prefix, keys);
  if (as.has_multipliers) add_multipliers(spec, prefix, keys);
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
      if (is_rotated && as_.rotation == Rotation::kPairs) {
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
  const GgufArchitecture& as = architecture_of(config.model_type);
  const ModelSpec spec = spec_of(config);
  require_expressible(spec, as);
  refuse_biases(spec, as);
  refuse_attention(spec, as);
  refuse_projection(spec, as);
  const RopeSpec& rope = spec.common().attention.rope;
  if (rope.scaling) refuse_scaling(*rope.scaling, as);

  GgufModel model{.architecture = std::string(as.name),
                  .keys = keys_of(config, spec, as),
                  .tensors = {},
                  .rope_factors = rope_factors_of(rope)};
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
