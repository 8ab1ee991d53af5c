// Lists the temporaries of a model, in the order in which they lie in the arena. What every cell
// keeps is left out: forward writes it to where it is kept.

#include "strata/model/llama_memory.h"

#include <algorithm>

#include "heads.h"
#include "strata/model/llama.h"
#include "strata/ops/bias.h"
#include "strata/ops/head_norm.h"
#include "strata/ops/norm.h"

namespace strata {

LlamaScratch::LlamaScratch(const ModelSpec& spec, const LlamaSizes& z, Allocator& memory) {
  const DType x = z.compute;
  const DType a = accumulator_of(x);
  const std::int64_t n = z.cell_tokens;
  const LayerSpec& layer = spec.common();
  const std::int64_t heads = layer.attention.heads;
  const std::int64_t query_width = layer.linear(LinearId::kAttentionOut).in;
  const std::int64_t qkv_width = layer.linear(LinearId::kQkv).out;
  const auto make = [&](std::string_view name, DType dtype, Shape shape) {
    return memory.tensor(Space::kDevice, name, dtype, shape);
  };
  const auto unless_kept = [&](KeepLevel from, std::string_view name, DType dtype, Shape shape) {
    return z.kept_by_all >= from ? TensorView() : make(name, dtype, shape);
  };
  if (layer.has(NormId::kAttention)) n1 = make("scratch.attention_norm", x, {n, spec.width});
  qkv = unless_kept(KeepLevel::kSelective, "scratch.qkv", x, {n, qkv_width});
  if (layer.normalises_heads()) {
    qk = make("scratch.normed_heads", x, {n, query_width + layer.attention.kv_width()});
  }
  o = unless_kept(KeepLevel::kAttention, "scratch.attention", x, {n, query_width});
  x_mid = unless_kept(KeepLevel::kAttentionOut, "scratch.x_mid", x, {n, spec.width});
  if (layer.has(NormId::kAttentionOut)) mid = make("scratch.mid", x, {n, spec.width});
  n2 = make("scratch.mlp_norm", x, {n, spec.width});
  gate_up =
      unless_kept(KeepLevel::kFull, "scratch.gate_up", x, {n, layer.linear(LinearId::kGateUp).out});
  act = make("scratch.act", x, {n, layer.linear(LinearId::kDown).in});
  if (layer.has(NormId::kMlpOut)) {
    down = unless_kept(KeepLevel::kAttentionOut, "scratch.down", x, {n, spec.width});
  }
  d_mid = make("scratch.d_mid", x, {n, spec.width});
  d_o = make("scratch.d_attention", x, {n, query_width});
  d_qkv = make("scratch.d_qkv", x, {n, qkv_width});
  rstd1 = make("scratch.rstd", a, {n});
  rstd2 = make("scratch.rstd", a, {n});
  if (layer.has(NormId::kAttentionOut)) out_rstd1 = make("scratch.rstd", a, {n});
  if (layer.has(NormId::kMlpOut)) out_rstd2 = make("scratch.rstd", a, {n});
  lse = unless_kept(KeepLevel::kAttention, "scratch.lse", a, {heads, n});
  delta = make("scratch.delta", a, {heads, n});
  if (z.add_dq) {
    dq_sum = make("scratch.dq_sum", a, {n, heads, layer.attention.head_size});
  }
  if (layer.normalises_heads()) {
    const auto rstd_shape = [&](const NormedHeads& of) {
      return of.one_by_one(layer) ? Shape{n, of.heads} : Shape{n};
    };
    const auto [queries, keys] = normed_heads(layer.attention);
    query_rstd = make("scratch.query_rstd", a, rstd_shape(queries));
    key_rstd = make("scratch.key_rstd", a, rstd_shape(keys));
    head_partials = make("scratch.normed_heads_partials", a,
                         {HeadNormBackward::kWorkspaceRows, layer.norm(NormId::kQuery).width});
  }
  norm_partials = make("scratch.norm_partials", a, {RmsNormBackward::kWorkspaceRows, spec.width});
  std::int64_t widest_bias = 0;
  for (const Linear& linear : layer.linears) {
    widest_bias = std::max(widest_bias, linear.bias_elements());
  }
  if (widest_bias > 0) {
    bias_partials = make("scratch.bias_partials", a, {BiasBackward::kWorkspaceRows, widest_bias});
  }
  if (const std::int64_t rank = spec.largest_adapter_rank(); rank > 0) {
    adapters = {.h = make("scratch.adapter", x, {n, rank}),
                .dh = make("scratch.d_adapter", x, {n, rank})};
    if (spec.adapter_dropout > 0) {
      adapters.x = make("scratch.adapter_input", x, {n, spec.widest_adapter_input()});
    }
  }
  head_n = make("scratch.head_norm", x, {z.head_chunk, spec.width});
  head_dn = make("scratch.head_d_norm", x, {z.head_chunk, spec.width});
  const Shape logits{z.head_chunk, Llama::logits_stride(spec.vocabulary)};
  head_logits = make("scratch.logits", x, logits);
  if (spec.logits_cap > 0) head_d_logits = make("scratch.d_logits", x, logits);
  head_rstd = make("scratch.head_rstd", a, {z.head_chunk});
  head_lse = make("scratch.head_lse", a, {z.head_chunk});
  if (z.preference) {
    head_token_loss = make("scratch.token_loss", a, {n});
    head_token_scale = make("scratch.token_scale", a, {n});
  }
  fp8 = Fp8Scratch(spec, n, memory);
}

}  // namespace strata
