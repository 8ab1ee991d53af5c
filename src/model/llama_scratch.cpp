// The list of temporaries, in the order in which they lie in the arena. What every cell keeps is
// left out: forward writes it to where it is kept.

#include "llama_scratch.h"

#include "strata/ops/norm.h"

namespace strata {

LlamaScratch make_scratch(const LlamaConfig& c, const LlamaSizes& z, const MakeTensor& make) {
  LlamaScratch s;
  const DType x = z.compute;
  const DType a = accumulator_of(x);
  const std::int64_t n = z.cell_tokens;
  const std::int64_t hd = c.query_width();
  const std::int64_t qkv = hd + 2 * c.kv_width();
  const auto unless_kept = [&](KeepLevel from, std::string_view name, DType dtype, Shape shape) {
    return z.kept_by_all >= from ? TensorView() : make(name, dtype, shape);
  };
  s.n1 = make("scratch.attention_norm", x, {n, c.hidden_size});
  s.qkv = unless_kept(KeepLevel::kSelective, "scratch.qkv", x, {n, qkv});
  s.o = unless_kept(KeepLevel::kAttention, "scratch.attention", x, {n, hd});
  s.x_mid = unless_kept(KeepLevel::kAttentionOut, "scratch.x_mid", x, {n, c.hidden_size});
  s.n2 = make("scratch.mlp_norm", x, {n, c.hidden_size});
  s.gate_up = unless_kept(KeepLevel::kFull, "scratch.gate_up", x, {n, 2 * c.intermediate_size});
  s.act = make("scratch.act", x, {n, c.intermediate_size});
  s.d_mid = make("scratch.d_mid", x, {n, c.hidden_size});
  s.d_o = make("scratch.d_attention", x, {n, hd});
  s.d_qkv = make("scratch.d_qkv", x, {n, qkv});
  s.rstd1 = make("scratch.rstd", a, {n});
  s.rstd2 = make("scratch.rstd", a, {n});
  s.lse = unless_kept(KeepLevel::kAttention, "scratch.lse", a, {c.num_attention_heads, n});
  s.delta = make("scratch.delta", a, {c.num_attention_heads, n});
  if (z.add_dq) {
    s.dq_sum = make("scratch.dq_sum", a, {n, c.num_attention_heads, c.head_size()});
  }
  s.norm_partials =
      make("scratch.norm_partials", a, {RmsNormBackward::kWorkspaceRows, c.hidden_size});
  s.head_n = make("scratch.head_norm", x, {z.head_chunk, c.hidden_size});
  s.head_dn = make("scratch.head_d_norm", x, {z.head_chunk, c.hidden_size});
  s.head_logits = make("scratch.logits", x, {z.head_chunk, Llama::logits_stride(c)});
  s.head_rstd = make("scratch.head_rstd", a, {z.head_chunk});
  s.head_lse = make("scratch.head_lse", a, {z.head_chunk});
  s.cos = make("rope.cos", a, {z.row_tokens, c.head_size() / 2});
  s.sin = make("rope.sin", a, {z.row_tokens, c.head_size() / 2});
  return s;
}

}  // namespace strata
