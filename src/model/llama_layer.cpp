// A layer's lists of operators. Backward runs most of forward's list again, so both call
// layer_activations. Attention is the one operator that is prepared before the first step, which is
// why Llama::prepare is here.

#include <cmath>

#include "cell_runner.h"
#include "heads.h"
#include "llama_scratch.h"
#include "strata/model/llama.h"

namespace strata {

namespace {

/// Returns attention on the activations `a`, from a.qkv to a.o and a.lse.
AttentionForward attention_forward(const LlamaConfig& c, const KeptActivations& a,
                                   const AttentionSegments& segments) {
  const std::int64_t h = c.num_attention_heads;
  const std::int64_t kv = c.kv_heads();
  const std::int64_t d = c.head_size();
  return {.q = heads_of(a.qkv, 0, h, d),
          .k = heads_of(a.qkv, h * d, kv, d),
          .v = heads_of(a.qkv, (h + kv) * d, kv, d),
          .segments = segments,
          .o = heads_of(a.o, 0, h, d),
          .lse = a.lse,
          .scale = 1.0 / std::sqrt(static_cast<double>(d))};
}

/// Returns the backward of that, from s.d_o to s.d_qkv.
AttentionBackward attention_backward(const LlamaConfig& c, const LlamaScratch& s,
                                     const KeptActivations& a, const AttentionSegments& segments) {
  const std::int64_t h = c.num_attention_heads;
  const std::int64_t kv = c.kv_heads();
  const std::int64_t d = c.head_size();
  const AttentionForward forward = attention_forward(c, a, segments);
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

}  // namespace

void Llama::prepare(Kernels& kernels, const LlamaConfig& config, const LlamaSizes& sizes) {
  // Only shapes are looked at, but a view without an address would count as left out.
  alignas(Arena::kAlignment) std::byte address{};
  const auto placed = [&](std::string_view, DType dtype, Shape shape) {
    return TensorView(&address, dtype, shape);
  };
  // What cells keep has the shapes of what they would have in scratch.
  LlamaSizes nothing_kept = sizes;
  nothing_kept.kept_by_all = KeepLevel::kRecompute;
  const LlamaScratch s = make_scratch(config, nothing_kept, placed);
  AttentionSegments segments;
  segments.uniform_length = sizes.row_tokens;
  segments.self_attention = true;
  const KeptActivations a{
      .o = s.o, .lse = s.lse, .x_mid = s.x_mid, .qkv = s.qkv, .gate_up = s.gate_up};
  kernels.prepare(attention_forward(config, a, segments));
  kernels.prepare(attention_backward(config, s, a, segments));
}

/// Returns where the activations of a cell are: in scratch, unless they are kept.
KeptActivations Llama::places(const KeptActivations& kept) const {
  const LlamaScratch& s = *scratch_;
  return {.o = kept.o ? kept.o : s.o,
          .lse = kept.lse ? kept.lse : s.lse,
          .x_mid = kept.x_mid ? kept.x_mid : s.x_mid,
          .qkv = kept.qkv ? kept.qkv : s.qkv,
          .gate_up = kept.gate_up ? kept.gate_up : s.gate_up};
}

/// Runs the forward list of a layer up to [gate | up], into `a` and the norms' scratch, which is
/// everything that backward needs. Leaves out the operators whose results are `there` already.
void Llama::layer_activations(const CellRunner& run, const LayerWeights& w, const CellBatch& batch,
                              ConstTensorView x, const KeptActivations& there,
                              const KeptActivations& a) {
  const LlamaScratch& s = *scratch_;
  const std::int64_t h = config_.num_attention_heads;
  const std::int64_t kv = config_.kv_heads();
  const std::int64_t d = config_.head_size();
  const double eps = config_.rms_norm_eps;

  run(RmsNormForward{.x = x,
                     .residual = {},
                     .weight = w.attention_norm,
                     .sum = {},
                     .y = s.n1,
                     .rstd = s.rstd1,
                     .eps = eps});
  if (!there.qkv) {
    const TensorView qk = heads_of(a.qkv, 0, h + kv, d);
    run.linear(s.n1, w.qkv, a.qkv);
    run(Rope{.x = qk, .positions = batch.positions, .cos = s.cos, .sin = s.sin});
  }
  if (!there.o) run(attention_forward(config_, a, batch.segments));
  // The norm reads the rounded sum, so its bits are the same whether the sum is there or made now.
  RmsNormForward mlp_norm{.x = a.x_mid,
                          .residual = {},
                          .weight = w.mlp_norm,
                          .sum = {},
                          .y = s.n2,
                          .rstd = s.rstd2,
                          .eps = eps};
  if (!there.x_mid) {
    run.linear(a.o, w.attention_out, a.x_mid);
    mlp_norm.x = x;
    mlp_norm.residual = a.x_mid;
    mlp_norm.sum = a.x_mid;
  }
  run(mlp_norm);
  if (!there.gate_up) run.linear(s.n2, w.gate_up, a.gate_up);
}

void Llama::layer_forward(Stream& compute, const LayerWeights& w, const CellBatch& batch,
                          ConstTensorView x, const KeptActivations& kept, TensorView y,
                          const Tag& tag) {
  const CellRunner run(kernels_, compute, tag);
  const LlamaScratch& s = *scratch_;
  const KeptActivations a = places(kept);
  layer_activations(run, w, batch, x, {}, a);
  run(SwigluForward{.gate_up = a.gate_up, .y = s.act});
  run.linear(s.act, w.down, y);
  run(ResidualAdd{.a = a.x_mid, .b = y, .y = y});
}

void Llama::layer_backward(Stream& compute, const LayerWeights& w, const LayerGradients& dw,
                           const CellBatch& batch, ConstTensorView x, const KeptActivations& kept,
                           TensorView d, const Tag& tag) {
  const CellRunner run(kernels_, compute, tag);
  const LlamaScratch& s = *scratch_;
  const KeptActivations a = places(kept);
  layer_activations(run, w, batch, x, kept, a);

  // MLP. act holds d_act and then act again; gate_up becomes its gradient.
  run.input_gradient(d, w.down, s.act);
  run(SwigluBackward{.d_y = s.act, .gate_up = a.gate_up, .d_gate_up = a.gate_up, .y = s.act});
  run.weight_gradient(d, s.act, dw.down);
  run.input_gradient(a.gate_up, w.gate_up, s.d_mid);
  run.weight_gradient(a.gate_up, s.n2, dw.gate_up);
  run(RmsNormBackward{.dy = s.d_mid,
                      .x = a.x_mid,
                      .weight = w.mlp_norm,
                      .rstd = s.rstd2,
                      .d_residual = d,
                      .dx = s.d_mid,
                      .d_weight = dw.mlp_norm,
                      .workspace = s.norm_partials});

  // Attention. n2 is free from here on and takes the gradient of n1.
  run.input_gradient(s.d_mid, w.attention_out, s.d_o);
  run.weight_gradient(s.d_mid, a.o, dw.attention_out);
  AttentionBackward attention = attention_backward(config_, s, a, batch.segments);
  attention.rotation = {.positions = batch.positions, .cos = s.cos, .sin = s.sin};
  run(attention);
  run.input_gradient(s.d_qkv, w.qkv, s.n2);
  run.weight_gradient(s.d_qkv, s.n1, dw.qkv);
  run(RmsNormBackward{.dy = s.n2,
                      .x = x,
                      .weight = w.attention_norm,
                      .rstd = s.rstd1,
                      .d_residual = s.d_mid,
                      .dx = d,
                      .d_weight = dw.attention_norm,
                      .workspace = s.norm_partials});
}

}  // namespace strata
