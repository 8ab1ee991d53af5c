// The list of temporaries, in the order in which they lie in the arena. What every cell keeps is
// left out: forward writes it to where it is kept.

#include "llama_scratch.h"

#include "strata/ops/norm.h"

namespace strata {

LlamaScratch make_scratch(const ModelSpec& spec, const LlamaSizes& z, const MakeTensor& make) {
  LlamaScratch s;
  const DType x = z.compute;
  const DType a = accumulator_of(x);
  const std::int64_t n = z.cell_tokens;
  const LayerSpec& layer = spec.widths();
  const std::int64_t heads = layer.attention.heads;
  const std::int64_t rotated = layer.attention.rope.width;
  const std::int64_t query = layer.linear(LinearId::kAttentionOut).in;
  const std::int64_t qkv = layer.linear(LinearId::kQkv).out;
  const auto unless_kept = [&](KeepLevel from, std::string_view name, DType dtype, Shape shape) {
    return z.kept_by_all >= from ? TensorView() : make(name, dtype, shape);
  };
  s.n1 = make("scratch.attention_norm", x, {n, spec.width});
  s.qkv = unless_kept(KeepLevel::kSelective, "scratch.qkv", x, {n, qkv});
  s.o = unless_kept(KeepLevel::kAttention, "scratch.attention", x, {n, query});
  s.x_mid = unless_kept(KeepLevel::kAttentionOut, "scratch.x_mid", x, {n, spec.width});
  s.n2 = make("scratch.mlp_norm", x, {n, spec.width});
  s.gate_up =
      unless_kept(KeepLevel::kFull, "scratch.gate_up", x, {n, layer.linear(LinearId::kGateUp).out});
  s.act = make("scratch.act", x, {n, layer.linear(LinearId::kDown).in});
  s.d_mid = make("scratch.d_mid", x, {n, spec.width});
  s.d_o = make("scratch.d_attention", x, {n, query});
  s.d_qkv = make("scratch.d_qkv", x, {n, qkv});
  s.rstd1 = make("scratch.rstd", a, {n});
  s.rstd2 = make("scratch.rstd", a, {n});
  s.lse = unless_kept(KeepLevel::kAttention, "scratch.lse", a, {heads, n});
  s.delta = make("scratch.delta", a, {heads, n});
  if (z.add_dq) {
    s.dq_sum = make("scratch.dq_sum", a, {n, heads, layer.attention.head_size});
  }
  s.norm_partials = make("scratch.norm_partials", a, {RmsNormBackward::kWorkspaceRows, spec.width});
  s.head_n = make("scratch.head_norm", x, {z.head_chunk, spec.width});
  s.head_dn = make("scratch.head_d_norm", x, {z.head_chunk, spec.width});
  s.head_logits = make("scratch.logits", x, {z.head_chunk, Llama::logits_stride(spec.vocabulary)});
  s.head_rstd = make("scratch.head_rstd", a, {z.head_chunk});
  s.head_lse = make("scratch.head_lse", a, {z.head_chunk});
  s.cos = make("rope.cos", a, {z.row_tokens, rotated / 2});
  s.sin = make("rope.sin", a, {z.row_tokens, rotated / 2});
  return s;
}

}  // namespace strata
