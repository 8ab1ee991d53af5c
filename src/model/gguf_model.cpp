// Says what of a model llama.cpp can compute, and how it calls it. Facts about its architectures
// are from the sources of llama.cpp (src/models, src/llama-arch.cpp and its converter), as of
// version 0.3.36 of llama-cpp-python.

#include "strata/model/gguf_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <string_view>

#include "strata/base/error.h"
#include "strata/model/families.h"
#include "strata/model/rope_table.h"
#include "strata/model/spec.h"

namespace strata {
namespace {

/// Which dimensions of a head are rotated together.
enum class Rotation : bool {
  kHalves,  ///< i and D/2 + i, as in a Hugging Face model
  kPairs,   ///< 2i and 2i + 1, so that rows are reordered
};

/// What an architecture of llama.cpp can express.
struct Architecture {
  ModelType type;
  std::string_view name;
  Rotation rotation;
  bool any_head_size;     ///< else heads are together as wide as the residual stream
  bool has_rope_factors;  ///< reads kGgufRopeFactors
  bool has_qkv_bias;
  bool has_other_biases;  ///< of attention's output and of the MLP
};
constexpr Architecture kArchitectures[] = {
    {ModelType::kLlama, "llama", Rotation::kPairs, true, true, true, true},
    {ModelType::kMistral, "llama", Rotation::kPairs, true, true, true, true},
    {ModelType::kPhi3, "phi3", Rotation::kHalves, false, false, false, false},
    {ModelType::kQwen2, "qwen2", Rotation::kHalves, false, false, true, false},
    {ModelType::kQwen3, "qwen3", Rotation::kHalves, true, false, false, false},
};

[[noreturn]] void refuse(const std::string& what, const std::string& remedy) {
  throw ConfigError("no GGUF file can be made of this model: " + what + "; " + remedy);
}
constexpr const char* kExportFolder = "export it as a Hugging Face folder (--format hf)";

const Architecture& architecture_of(ModelType type) {
  const auto* const found = std::ranges::find(kArchitectures, type, &Architecture::type);
  if (found != std::end(kArchitectures)) return *found;
  refuse("strata does not know how llama.cpp has the family \"" +
             std::string(enum_name(kModelTypeNames, type)) + "\"",
         kExportFolder);
}

// ---- what is refused ----

void refuse_biases(const ModelSpec& spec, const Architecture& as) {
  for (const Linear& linear : spec.common().linears) {
    const bool is_qkv = linear.id == LinearId::kQkv;
    if (!linear.has_bias() || (is_qkv ? as.has_qkv_bias : as.has_other_biases)) continue;
    const bool is_attention = is_qkv || linear.id == LinearId::kAttentionOut;
    refuse(std::string(is_attention ? "attention_bias" : "mlp_bias") + " is true, and the " +
               std::string(as.name) + " of llama.cpp has no bias of " +
               std::string(name_of(linear.id)),
           kExportFolder);
  }
}

void refuse_attention(const ModelSpec& spec, const Architecture& as) {
  const AttentionSpec& attention = spec.common().attention;
  const auto head_size = static_cast<double>(attention.head_size);
  if (attention.scale != 1.0 / std::sqrt(head_size)) {
    throw std::logic_error("scores of this family have no keys in GGUF yet");
  }
  if (attention.rope.width != attention.head_size) {
    refuse("partial_rotary_factor is not 1, which strata does not know how to write",
           kExportFolder);
  }
  if (!as.any_head_size && attention.query_width() != spec.width) {
    refuse("head_dim is " + std::to_string(attention.head_size) + ", and the " +
               std::string(as.name) +
               " of llama.cpp has only heads of hidden_size / "
               "num_attention_heads = " +
               std::to_string(spec.width / attention.heads),
           kExportFolder);
  }
}

void refuse_scaling(const RopeScaling& scaling, const Architecture& as) {
  const std::string type(enum_name(kRopeTypeNames, scaling.rope_type));
  if (scaling.rope_type == RopeType::kDynamic) {
    refuse("rope_scaling.rope_type is dynamic, which llama.cpp does not have",
           "as far as max_position_embeddings it changes nothing: set rope_scaling to null in the "
           "config.json of an exported folder, and export that");
  }
  if (scaling.rope_type == RopeType::kLongRope) {
    refuse("rope_scaling.rope_type is longrope, which strata does not know how to write",
           kExportFolder);
  }
  if (scaling.rope_type == RopeType::kLlama3 && !as.has_rope_factors) {
    refuse("rope_scaling.rope_type is llama3, and the " + std::string(as.name) +
               " of llama.cpp reads no rope_freqs",
           kExportFolder);
  }
  if (scaling.rope_type == RopeType::kYarn && !scaling.truncate) {
    refuse("rope_scaling.truncate is false, and llama.cpp always truncates", kExportFolder);
  }
}

// ---- keys ----

void add_scaling(const RopeScaling& scaling, const std::string& prefix, GgufKeys& keys) {
  if (scaling.rope_type != RopeType::kLinear && scaling.rope_type != RopeType::kYarn) return;
  keys.add_text(prefix + "rope.scaling.type", enum_name(kRopeTypeNames, scaling.rope_type));
  keys.add_number(prefix + "rope.scaling.factor", scaling.factor);
  if (scaling.rope_type == RopeType::kLinear) return;
  keys.add_count(prefix + "rope.scaling.original_context_length",
                 scaling.original_max_position_embeddings);
  keys.add_number(prefix + "rope.scaling.yarn_beta_fast", scaling.beta_fast);
  keys.add_number(prefix + "rope.scaling.yarn_beta_slow", scaling.beta_slow);
  // llama.cpp multiplies cosines and sines by this and by yarn's own magnitude for the factor.
  keys.add_number(prefix + "rope.scaling.attn_factor",
                  scaling.magnitude() / (1.0 + 0.1 * std::log(scaling.factor)));
}

GgufKeys keys_of(const LlamaConfig& config, const ModelSpec& spec, const std::string& name) {
  const AttentionSpec& attention = spec.common().attention;
  const std::string prefix = name + '.';
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
  return keys;
}

/// Returns what the angles of pairs are divided by where the scaling is llama3's.
std::vector<float> rope_factors_of(const RopeSpec& rope) {
  std::vector<float> factors;
  if (!rope.scaling || rope.scaling->rope_type != RopeType::kLlama3) return factors;
  const std::vector<double> scaled = rope_frequencies(rope, 0);
  const std::vector<double> plain =
      rope_frequencies({.width = rope.width, .theta = rope.theta, .scaling = {}}, 0);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    factors.push_back(static_cast<float>(plain[i] / scaled[i]));
  }
  return factors;
}

// ---- tensors ----

constexpr EnumName<NormId> kGgufNorms[] = {{NormId::kAttention, "attn_norm"},
                                           {NormId::kMlp, "ffn_norm"},
                                           {NormId::kQuery, "attn_q_norm"},
                                           {NormId::kKey, "attn_k_norm"}};

std::string name_of_norm(NormId id) {
  const std::string_view name = enum_name(kGgufNorms, id);
  if (name == "?") throw std::logic_error("a norm of this family has no name in GGUF yet");
  return std::string(name);
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
  LayerTensors(const ModelSpec& spec, int number, Rotation rotation, std::vector<GgufPlace>& places)
      : layer_(spec.layer(number)),
        source_(spec.layer_prefix + std::to_string(number) + '.'),
        name_("blk." + std::to_string(number) + '.'),
        rotation_(rotation),
        places_(places) {}

  void add() {
    for (const Norm& norm : layer_.norms) {
      places_.push_back({.source = source_ + norm.source,
                         .name = name_ + name_of_norm(norm.id) + ".weight",
                         .shape = {norm.width}});
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
      if (is_rotated && rotation_ == Rotation::kPairs) {
        place.interleaved_rows = layer_.attention.head_size;
      }
      places_.push_back(std::move(place));
    }
  }

  const LayerSpec& layer_;
  std::string source_;
  std::string name_;
  Rotation rotation_;
  std::vector<GgufPlace>& places_;
};

}  // namespace

GgufModel gguf_model_of(const LlamaConfig& config) {
  const Architecture& as = architecture_of(config.model_type);
  const ModelSpec spec = spec_of(config);
  refuse_biases(spec, as);
  refuse_attention(spec, as);
  const RopeSpec& rope = spec.common().attention.rope;
  if (rope.scaling) refuse_scaling(*rope.scaling, as);

  GgufModel model{.architecture = std::string(as.name),
                  .keys = keys_of(config, spec, std::string(as.name)),
                  .tensors = {},
                  .rope_factors = rope_factors_of(rope)};
  const std::vector<std::int64_t> vocabulary{spec.vocabulary, spec.width};
  model.tensors.push_back({spec.embedding, "token_embd.weight", vocabulary});
  for (int layer = 0; layer < spec.layers(); ++layer) {
    LayerTensors(spec, layer, as.rotation, model.tensors).add();
  }
  model.tensors.push_back({spec.final_norm, "output_norm.weight", {spec.width}});
  if (!spec.tied()) model.tensors.push_back({spec.projection, "output.weight", vocabulary});
  return model;
}

}  // namespace strata
