// Makes the spec of LLaMA, of Mistral, and of Seed-OSS: layers are equal but for windows, norms
// come before attention and before the MLP, queries and keys are rotated, and the MLP is
// down(silu(gate(x)) * up(x)). A config may ask for biases of attention's linears and of the MLP's.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "../family_keys.h"
#include "families.h"

namespace strata {
namespace {

AttentionSpec attention_of(const LlamaConfig& c) {
  const std::int64_t head_size = c.head_size();
  return {.heads = c.num_attention_heads,
          .kv_heads = c.kv_heads(),
          .head_size = head_size,
          .scale = 1.0 / std::sqrt(static_cast<double>(head_size)),
          .rope = {.width = c.rotary_width(), .theta = c.rope_theta, .scaling = c.rope_scaling}};
}

Linear linear(LinearId id, std::int64_t in, std::vector<SourceTensor> sources) {
  Linear linear{.id = id, .in = in, .out = 0, .sources = std::move(sources), .bias_sources = {}};
  for (const SourceTensor& source : linear.sources) linear.out += source.rows;
  return linear;
}

LayerSpec layer_of(const LlamaConfig& c) {
  const AttentionSpec attention = attention_of(c);
  const std::int64_t query = attention.query_width();
  const std::int64_t kv = attention.kv_width();
  const std::int64_t width = c.hidden_size;
  const std::int64_t inner = c.intermediate_size;
  return {.attention = attention,
          .linears = {linear(LinearId::kQkv, width,
                             {{"self_attn.q_proj.weight", query},
                              {"self_attn.k_proj.weight", kv},
                              {"self_attn.v_proj.weight", kv}}),
                      linear(LinearId::kAttentionOut, query, {{"self_attn.o_proj.weight", width}}),
                      linear(LinearId::kGateUp, width,
                             {{"mlp.gate_proj.weight", inner}, {"mlp.up_proj.weight", inner}}),
                      linear(LinearId::kDown, inner, {{"mlp.down_proj.weight", width}})},
          .norms = {{NormId::kAttention, width, "input_layernorm.weight"},
                    {NormId::kMlp, width, "post_attention_layernorm.weight"}}};
}

/// Returns whether the config asks for a bias of this linear.
bool has_bias(const LlamaConfig& c, LinearId id) {
  switch (id) {
    case LinearId::kQkv: return c.attention_bias;
    case LinearId::kAttentionOut:
      if (c.model_type == ModelType::kGlm4) return false;
      return c.model_type == ModelType::kSeedOss ? c.attention_out_bias : c.attention_bias;
    case LinearId::kGateUp:
    case LinearId::kDown: return c.mlp_bias;
  }
  throw std::logic_error("the linear is none of a layer's");
}

/// Gives layers their windows: those that have one are a kind of their own, beside those that have
/// none if there are any.
void give_windows(ModelSpec& spec, const LlamaConfig& c) {
  if (!has_key(c.model_type, "sliding_window")) return;
  std::vector<std::int64_t> windows;
  for (std::int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    windows.push_back(c.window(layer));
  }
  if (std::ranges::max(windows) == 0) return;
  if (std::ranges::min(windows) == 0) spec.kinds.push_back(spec.kinds.front());
  spec.kinds.back().attention.window = std::ranges::max(windows);
  for (std::size_t layer = 0; layer < windows.size(); ++layer) {
    spec.kind[layer] = windows[layer] == 0 ? 0 : spec.kinds.size() - 1;
  }
}

}  // namespace

void give_bias(Linear& linear) {
  constexpr std::string_view kWeight = "weight";
  linear.bias_sources = linear.sources;
  for (SourceTensor& source : linear.bias_sources) {
    source.name.replace(source.name.size() - kWeight.size(), kWeight.size(), "bias");
  }
}

ModelSpec llama_spec(const LlamaConfig& c) {
  LayerSpec layer = layer_of(c);
  for (Linear& linear : layer.linears) {
    if (has_bias(c, linear.id)) give_bias(linear);
  }
  ModelSpec spec{.width = c.hidden_size,
                 .vocabulary = c.vocab_size,
                 .norm_eps = c.rms_norm_eps,
                 .embedding = "model.embed_tokens.weight",
                 .layer_prefix = "model.layers.",
                 .kinds = {std::move(layer)},
                 .kind = std::vector<std::size_t>(static_cast<std::size_t>(c.num_hidden_layers)),
                 .final_norm = "model.norm.weight",
                 .projection = c.tie_word_embeddings ? "" : "lm_head.weight"};
  give_windows(spec, c);
  return spec;
}

}  // namespace strata
