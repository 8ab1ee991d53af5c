// Lists the operators of a layer. Backward runs most of forward's list again, so both call
// layer_activations. Attention is the one operator that is prepared before the first step, which is
// why Llama::prepare is here.

#include "cell_runner.h"
#include "heads.h"
#include "strata/model/llama.h"

namespace strata {

namespace {

/// Returns the packed buffer that begins with the rotated queries and keys: that of q, k and v, or
/// where a layer normalises heads one beside it, since backward needs what the norms have read.
const TensorView& rotated(const LlamaScratch& s, const KeptActivations& a) {
  return s.qk ? s.qk : a.qkv;
}

/// Returns attention on the activations `a`, from rotated() and a.qkv to a.o and a.lse.
AttentionForward attention_forward(const AttentionSpec& spec, const LlamaScratch& s,
                                   const KeptActivations& a, const AttentionSegments& segments) {
  const std::int64_t h = spec.heads;
  const std::int64_t kv = spec.kv_heads;
  const std::int64_t d = spec.head_size;
  return {.q = heads_of(rotated(s, a), 0, h, d),
          .k = heads_of(rotated(s, a), h * d, kv, d),
          .v = heads_of(a.qkv, (h + kv) * d, kv, d),
          .segments = segments,
          .o = heads_of(a.o, 0, h, d),
          .lse = a.lse,
          .scale = spec.scale};
}

/// Returns the backward of that, from s.d_o to s.d_qkv.
AttentionBackward attention_backward(const AttentionSpec& spec, const LlamaScratch& s,
                                     const KeptActivations& a, const AttentionSegments& segments) {
  const std::int64_t h = spec.heads;
  const std::int64_t kv = spec.kv_heads;
  const std::int64_t d = spec.head_size;
  const AttentionForward forward = attention_forward(spec, s, a, segments);
  return {.d_o = heads_of(s.d_o, 0, h, d),
          .q = forward.q,
          .k = forward.k,
          .v = forward.v,
          .o = forward.o,
          .lse = forward.lse,
          .segments = segments,
          .dq = heads_of(s.d_qkv, 0, h, d),
          .dk = heads_of(s.d_qkv, h * d, kv, d),
          .dv = heads_of(s.d_qkv, (h + kv) * d, kv, d),
          .delta = s.delta,
          .dq_sum = s.dq_sum,
          .scale = forward.scale};
}

/// Normalises the heads of q and k in `qkv` into s.qk.
void normalise_heads(const LayerRunner& run, const LlamaScratch& s, const TensorView& qkv,
                     double eps) {
  const std::int64_t h = run.layer().attention.heads;
  const std::int64_t kv = run.layer().attention.kv_heads;
  const std::int64_t d = run.layer().attention.head_size;
  run(HeadNormForward{.x = heads_of(qkv, 0, h, d),
                      .weight = run.weight(NormId::kQuery),
                      .y = heads_of(s.qk, 0, h, d),
                      .rstd = s.query_rstd,
                      .eps = eps});
  run(HeadNormForward{.x = heads_of(qkv, h * d, kv, d),
                      .weight = run.weight(NormId::kKey),
                      .y = heads_of(s.qk, h * d, kv, d),
                      .rstd = s.key_rstd,
                      .eps = eps});
}

/// Turns the gradients of normalised heads, which s.d_qkv begins with, into those of q and k in
/// `qkv`, and adds to the gradients of the norms' weights.
void differentiate_heads(const LayerRunner& run, const LlamaScratch& s, const TensorView& qkv) {
  const std::int64_t h = run.layer().attention.heads;
  const std::int64_t kv = run.layer().attention.kv_heads;
  const std::int64_t d = run.layer().attention.head_size;
  const auto differentiate = [&](NormId id, std::int64_t begin, std::int64_t heads,
                                 const TensorView& rstd) {
    const TensorView gradient = heads_of(s.d_qkv, begin, heads, d);
    run(HeadNormBackward{.dy = gradient,
                         .x = heads_of(qkv, begin, heads, d),
                         .weight = run.weight(id),
                         .rstd = rstd,
                         .dx = gradient,
                         .d_weight = run.gradient(id),
                         .workspace = s.head_partials});
  };
  differentiate(NormId::kQuery, 0, h, s.query_rstd);
  differentiate(NormId::kKey, h * d, kv, s.key_rstd);
}

/// Gives everybody the same address, where only shapes are looked at: a view without one would
/// count as left out.
class OneAddress final : public Allocator {
 public:
  std::byte* allocate(Space, std::string_view, std::size_t) override { return &address_; }

 private:
  alignas(Arena::kAlignment) std::byte address_{};
};

}  // namespace

void Llama::prepare(Kernels& kernels, const ModelSpec& spec, const LlamaSizes& sizes) {
  OneAddress placed;
  // What cells keep has the shapes of what they would have in scratch.
  LlamaSizes nothing_kept = sizes;
  nothing_kept.kept_by_all = KeepLevel::kRecompute;
  const LlamaScratch s(spec, nothing_kept, placed);
  AttentionSegments segments;
  segments.uniform_length = sizes.row_tokens;
  segments.self_attention = true;
  const KeptActivations a{
      .o = s.o, .lse = s.lse, .x_mid = s.x_mid, .qkv = s.qkv, .gate_up = s.gate_up};
  for (const LayerSpec& kind : spec.kinds) {
    kernels.prepare(attention_forward(kind.attention, s, a, segments));
    kernels.prepare(attention_backward(kind.attention, s, a, segments));
  }
}

/// Returns where the activations of a cell are: in scratch, unless they are kept.
KeptActivations Llama::places(const KeptActivations& kept) const {
  const LlamaScratch& s = memory_.scratch;
  return {.o = kept.o ? kept.o : s.o,
          .lse = kept.lse ? kept.lse : s.lse,
          .x_mid = kept.x_mid ? kept.x_mid : s.x_mid,
          .qkv = kept.qkv ? kept.qkv : s.qkv,
          .gate_up = kept.gate_up ? kept.gate_up : s.gate_up};
}

/// Runs the forward list of a layer up to [gate | up], into `a` and the norms' scratch, which is
/// everything that backward needs. Leaves out the operators whose results are `there` already.
void Llama::layer_activations(const LayerRunner& run, const CellBatch& batch, ConstTensorView x,
                              const KeptActivations& there, const KeptActivations& a) {
  const LlamaScratch& s = memory_.scratch;
  const AttentionSpec& attention = run.layer().attention;
  const double eps = spec_.norm_eps;

  run(RmsNormForward{.x = x,
                     .residual = {},
                     .weight = run.weight(NormId::kAttention),
                     .sum = {},
                     .y = s.n1,
                     .rstd = s.rstd1,
                     .eps = eps});
  if (!there.qkv) run.linear(LinearId::kQkv, s.n1, a.qkv);
  if (s.qk) normalise_heads(run, s, a.qkv, eps);
  if (!there.qkv || s.qk) {
    const std::int64_t turned = attention.heads + attention.kv_heads;
    run(Rope{.x = heads_of(rotated(s, a), 0, turned, attention.head_size),
             .positions = batch.positions,
             .cos = memory_.rope.cos,
             .sin = memory_.rope.sin});
  }
  if (!there.o) run(attention_forward(attention, s, a, batch.segments));
  // The norm reads the rounded sum, so its bits are the same whether the sum is there or made now.
  RmsNormForward mlp_norm{.x = a.x_mid,
                          .residual = {},
                          .weight = run.weight(NormId::kMlp),
                          .sum = {},
                          .y = s.n2,
                          .rstd = s.rstd2,
                          .eps = eps};
  if (!there.x_mid) {
    run.linear(LinearId::kAttentionOut, a.o, a.x_mid);
    mlp_norm.x = x;
    mlp_norm.residual = a.x_mid;
    mlp_norm.sum = a.x_mid;
  }
  run(mlp_norm);
  if (!there.gate_up) run.linear(LinearId::kGateUp, s.n2, a.gate_up);
}

void Llama::layer_forward(Stream& compute, int layer, const LayerWeights& w, const CellBatch& batch,
                          ConstTensorView x, const KeptActivations& kept, TensorView y,
                          const Tag& tag) {
  const LayerRunner run({kernels_, compute, tag}, spec_.layer(layer), w);
  const LlamaScratch& s = memory_.scratch;
  const KeptActivations a = places(kept);
  layer_activations(run, batch, x, {}, a);
  run(SwigluForward{.gate_up = a.gate_up, .y = s.act});
  run.linear(LinearId::kDown, s.act, y);
  run(ResidualAdd{.a = a.x_mid, .b = y, .y = y});
}

void Llama::layer_backward(Stream& compute, int layer, const LayerWeights& w,
                           const LayerGradients& dw, const CellBatch& batch, ConstTensorView x,
                           const KeptActivations& kept, TensorView d, const Tag& tag) {
  const LlamaScratch& s = memory_.scratch;
  const LayerBackward backward{.gradients = dw, .bias_partials = s.bias_partials};
  const LayerRunner run({kernels_, compute, tag}, spec_.layer(layer), w, &backward);
  const KeptActivations a = places(kept);
  layer_activations(run, batch, x, kept, a);

  // MLP. act holds d_act and then act again; gate_up becomes its gradient.
  run.input_gradient(LinearId::kDown, d, s.act);
  run(SwigluBackward{.d_y = s.act, .gate_up = a.gate_up, .d_gate_up = a.gate_up, .y = s.act});
  run.weight_gradient(LinearId::kDown, d, s.act);
  run.input_gradient(LinearId::kGateUp, a.gate_up, s.d_mid);
  run.weight_gradient(LinearId::kGateUp, a.gate_up, s.n2);
  run(RmsNormBackward{.dy = s.d_mid,
                      .x = a.x_mid,
                      .weight = run.weight(NormId::kMlp),
                      .rstd = s.rstd2,
                      .d_residual = d,
                      .dx = s.d_mid,
                      .d_weight = run.gradient(NormId::kMlp),
                      .workspace = s.norm_partials});

  // Attention. n2 is free from here on and takes the gradient of n1.
  run.input_gradient(LinearId::kAttentionOut, s.d_mid, s.d_o);
  run.weight_gradient(LinearId::kAttentionOut, s.d_mid, a.o);
  AttentionBackward attention = attention_backward(run.layer().attention, s, a, batch.segments);
  attention.rotation = {
      .positions = batch.positions, .cos = memory_.rope.cos, .sin = memory_.rope.sin};
  run(attention);
  if (s.qk) differentiate_heads(run, s, a.qkv);
  run.input_gradient(LinearId::kQkv, s.d_qkv, s.n2);
  run.weight_gradient(LinearId::kQkv, s.d_qkv, s.n1);
  run(RmsNormBackward{.dy = s.n2,
                      .x = x,
                      .weight = run.weight(NormId::kAttention),
                      .rstd = s.rstd1,
                      .d_residual = s.d_mid,
                      .dx = d,
                      .d_weight = run.gradient(NormId::kAttention),
                      .workspace = s.norm_partials});
}

}  // namespace strata
