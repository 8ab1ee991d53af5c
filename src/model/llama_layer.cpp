// Lists the operators of a layer. Backward runs most of forward's list again, so both call
// layer_activations. Attention is the one operator that is prepared before the first step, which is
// why Llama::prepare is here.

#include <algorithm>
#include <optional>

#include "heads.h"
#include "layer_runner.h"
#include "rope_memory.h"
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
          .scale = spec.scale,
          .window = spec.window,
          .score_cap = spec.score_cap};
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
          .scale = forward.scale,
          .window = forward.window,
          .score_cap = forward.score_cap};
}

/// Returns the residual stream between attention and the MLP.
const TensorView& mid_of(const LlamaScratch& s, const KeptActivations& a) {
  return s.mid ? s.mid : a.x_mid;
}

/// Returns what attention reads: the layer's input, normalised if the layer does that.
ConstTensorView attention_input(const LlamaScratch& s, const ConstTensorView& x) {
  return s.n1 ? ConstTensorView(s.n1) : x;
}

/// Returns what the MLP reads.
const TensorView& mlp_input(const LayerSpec& layer, const LlamaScratch& s,
                            const KeptActivations& a) {
  return layer.has(NormId::kMlp) ? s.n2 : mid_of(s, a);
}

/// Normalises q and k in `qkv` into s.qk, and rotates them there by `turn` if it is given. Norms of
/// single heads do that on the way, where they can.
void normalise_heads(const LayerRunner& run, const LlamaScratch& s, const TensorView& qkv,
                     const std::optional<Rope>& turn, const ModelSpec& spec) {
  const auto normed = normed_heads(run.layer().attention);
  const bool one_by_one = std::ranges::all_of(
      normed, [&](const NormedHeads& of) { return of.one_by_one(run.layer()); });
  const RopeAngles on_the_way = turn && one_by_one ? turn->angles() : RopeAngles{};
  for (const NormedHeads& of : normed) {
    const TensorView& rstd = of.id == NormId::kQuery ? s.query_rstd : s.key_rstd;
    run.normalise(of, qkv, s.qk, rstd, spec, on_the_way);
  }
  if (turn && !on_the_way) run(*turn);
}

/// Turns the gradients of normalised heads, which s.d_qkv begins with, into those of q and k in
/// `qkv`, and adds to the gradients of the norms' weights.
void differentiate_heads(const LayerRunner& run, const LlamaScratch& s, const TensorView& qkv,
                         const ModelSpec& spec) {
  for (const NormedHeads& of : normed_heads(run.layer().attention)) {
    const TensorView& rstd = of.id == NormId::kQuery ? s.query_rstd : s.key_rstd;
    const TensorView workspace(s.head_partials.data, s.head_partials.dtype,
                               Shape{s.head_partials.rows(), run.layer().norm(of.id).width});
    if (of.one_by_one(run.layer())) {
      run(HeadNormBackward{.dy = of.apart(s.d_qkv),
                           .x = of.apart(qkv),
                           .weight = run.weight(of.id),
                           .rstd = rstd,
                           .dx = of.apart(s.d_qkv),
                           .d_weight = run.gradient(of.id),
                           .workspace = workspace,
                           .offset = spec.norm_offset});
    } else {
      run(RmsNormBackward{.dy = of.joined(s.d_qkv),
                          .x = of.joined(qkv),
                          .weight = run.weight(of.id),
                          .rstd = rstd,
                          .d_residual = {},
                          .dx = of.joined(s.d_qkv),
                          .d_weight = run.gradient(of.id),
                          .workspace = workspace,
                          .offset = spec.norm_offset});
    }
  }
}

/// Runs the MLP from [gate | up] to y.
void run_down(const LayerRunner& run, const LlamaScratch& s, const KeptActivations& a,
              const TensorView& y) {
  SwigluForward swiglu{.gate_up = a.gate_up, .y = s.act, .activation = run.layer().activation};
  run.round_input(LinearId::kDown, swiglu);
  run(swiglu);
  run.linear(LinearId::kDown, s.act, y, Rounded::kAlready);
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
      .o = s.o, .lse = s.lse, .x_mid = s.x_mid, .qkv = s.qkv, .gate_up = s.gate_up, .down = s.down};
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
          .gate_up = kept.gate_up ? kept.gate_up : s.gate_up,
          .down = kept.down ? kept.down : s.down};
}

/// Runs the forward list of a layer up to [gate | up], into `a` and the norms' scratch, which is
/// everything that backward needs of that. Leaves out the operators whose results are `there`
/// already.
void Llama::layer_activations(const LayerRunner& run, const CellBatch& batch, ConstTensorView x,
                              const KeptActivations& there, const KeptActivations& a) {
  const LlamaScratch& s = memory_.scratch;
  const LayerSpec& layer = run.layer();
  const AttentionSpec& attention = layer.attention;

  Rounded rounded = Rounded::kNotYet;
  if (layer.has(NormId::kAttention)) {
    RmsNormForward norm = run.norm(NormId::kAttention, x, s.n1, s.rstd1, spec_);
    if (!there.qkv) run.round_input(LinearId::kQkv, norm);
    run(norm);
    rounded = Rounded::kAlready;
  }
  if (!there.qkv) run.linear(LinearId::kQkv, attention_input(s, x), a.qkv, rounded);
  std::optional<Rope> turn;
  if (attention.rotates) {
    turn = rope_of(attention, rotated(s, a), memory_.rope, batch.positions);
  }
  if (s.qk) {
    normalise_heads(run, s, a.qkv, turn, spec_);
  } else if (turn && !there.qkv) {
    run(*turn);
  }
  if (!there.o) run(attention_forward(attention, s, a, batch.segments));
  if (!there.x_mid) run.linear(LinearId::kAttentionOut, a.o, a.x_mid);
  const bool normed = layer.has(NormId::kAttentionOut);
  if (normed) run(run.norm(NormId::kAttentionOut, a.x_mid, s.mid, s.out_rstd1, spec_));
  // What `mid` holds by now is still to be added to x, unless it was kept as the sum.
  const bool adds = normed || !there.x_mid;
  const TensorView& mid = mid_of(s, a);
  rounded = Rounded::kNotYet;
  if (layer.has(NormId::kMlp)) {
    // The norm reads the rounded sum, so its bits are the same whether the sum is there or made
    // now.
    RmsNormForward norm = run.norm(NormId::kMlp, mid, s.n2, s.rstd2, spec_);
    if (adds) {
      norm.x = x;
      norm.residual = mid;
      norm.sum = mid;
    }
    if (!there.gate_up) run.round_input(LinearId::kGateUp, norm);
    run(norm);
    rounded = Rounded::kAlready;
  } else if (adds) {
    run(ResidualAdd{.a = x, .b = mid, .y = mid});
  }
  if (!there.gate_up) run.linear(LinearId::kGateUp, mlp_input(layer, s, a), a.gate_up, rounded);
}

/// Normalises what the MLP gives, a.down, into y, and makes it first unless it is `there`.
void Llama::mlp_output(const LayerRunner& run, const KeptActivations& there,
                       const KeptActivations& a, const TensorView& y) {
  const LlamaScratch& s = memory_.scratch;
  if (!there.down) run_down(run, s, a, a.down);
  run(run.norm(NormId::kMlpOut, a.down, y, s.out_rstd2, spec_));
}

LayerRunner Llama::layer_runner(Stream& compute, int layer, const LayerWeights& w,
                                const LayerGradients* dw, const Tag& tag,
                                const DropoutMask& dropout) const {
  return {{kernels_, compute, tag},
          spec_.layer(layer),
          w,
          {.scratch = &memory_.scratch,
           .adapters = &memory_.scratch.adapters,
           .gradients = dw,
           .counters = Fp8Counters::of_layer(fp8_counts_, layer),
           .dropout = dropout}};
}

void Llama::begin_layer_forward(Stream& compute, int layer, const LayerWeights& w, const Tag& tag) {
  layer_runner(compute, layer, w, nullptr, tag).round_weights();
}

void Llama::begin_layer_backward(Stream& compute, int layer, const LayerWeights& w,
                                 const LayerGradients& dw, const Tag& tag) {
  layer_runner(compute, layer, w, &dw, tag).round_weights();
}

void Llama::layer_forward(Stream& compute, int layer, const LayerWeights& w, const CellBatch& batch,
                          ConstTensorView x, const KeptActivations& kept, TensorView y,
                          const Tag& tag) {
  const LlamaScratch& s = memory_.scratch;
  const LayerRunner run =
      layer_runner(compute, layer, w, nullptr, tag, adapter_dropout(layer, batch));
  const KeptActivations a = places(kept);
  layer_activations(run, batch, x, {}, a);
  if (run.layer().has(NormId::kMlpOut)) {
    mlp_output(run, {}, a, y);
  } else {
    run_down(run, s, a, y);
  }
  run(ResidualAdd{.a = mid_of(s, a), .b = y, .y = y});
}

/// Takes d, the gradient of the layer's output, through the MLP: s.d_mid becomes that of the stream
/// between attention and MLP. act holds d_act and then act again; gate_up becomes its gradient.
void Llama::mlp_backward(const LayerRunner& run, const KeptActivations& there,
                         const KeptActivations& a, const TensorView& d) {
  const LlamaScratch& s = memory_.scratch;
  const LayerSpec& layer = run.layer();
  const bool normed = layer.has(NormId::kMlpOut);
  if (normed) {
    mlp_output(run, there, a, s.d_mid);
    RmsNormBackward norm = run.norm_backward(
        NormId::kMlpOut, {.dy = d, .x = a.down, .rstd = s.out_rstd2, .dx = s.d_mid}, s, spec_);
    run.round_gradient(LinearId::kDown, norm);
    run(norm);
  }
  const TensorView& d_down = normed ? s.d_mid : d;
  run.input_gradient(LinearId::kDown, d_down, s.act, normed ? Rounded::kAlready : Rounded::kNotYet);
  SwigluBackward swiglu{.d_y = s.act,
                        .gate_up = a.gate_up,
                        .d_gate_up = a.gate_up,
                        .y = s.act,
                        .activation = layer.activation};
  run.round_gradient(LinearId::kGateUp, swiglu);
  run(swiglu);
  run.weight_gradient(LinearId::kDown, d_down, s.act);
  run.input_gradient(LinearId::kGateUp, a.gate_up, s.d_mid, Rounded::kAlready);
  run.weight_gradient(LinearId::kGateUp, a.gate_up, mlp_input(layer, s, a));
  if (!layer.has(NormId::kMlp)) return run(ResidualAdd{.a = d, .b = s.d_mid, .y = s.d_mid});
  RmsNormBackward norm = run.norm_backward(
      NormId::kMlp,
      {.dy = s.d_mid, .x = mid_of(s, a), .rstd = s.rstd2, .d_residual = d, .dx = s.d_mid}, s,
      spec_);
  if (!layer.has(NormId::kAttentionOut)) run.round_gradient(LinearId::kAttentionOut, norm);
  run(norm);
}

void Llama::layer_backward(Stream& compute, int layer, const LayerWeights& w,
                           const LayerGradients& dw, const CellBatch& batch, ConstTensorView x,
                           const KeptActivations& kept, TensorView d, const Tag& tag) {
  const LlamaScratch& s = memory_.scratch;
  const LayerRunner run = layer_runner(compute, layer, w, &dw, tag, adapter_dropout(layer, batch));
  const KeptActivations a = places(kept);
  layer_activations(run, batch, x, kept, a);
  mlp_backward(run, kept, a, d);

  // Attention. n2 is free from here on and takes gradients: of what the norm after attention reads,
  // and then of what attention reads.
  const bool normed = run.layer().has(NormId::kAttentionOut);
  if (normed) {
    RmsNormBackward norm =
        run.norm_backward(NormId::kAttentionOut,
                          {.dy = s.d_mid, .x = a.x_mid, .rstd = s.out_rstd1, .dx = s.n2}, s, spec_);
    run.round_gradient(LinearId::kAttentionOut, norm);
    run(norm);
  }
  const TensorView& d_out = normed ? s.n2 : s.d_mid;
  const bool by_norm = normed || run.layer().has(NormId::kMlp);
  run.input_gradient(LinearId::kAttentionOut, d_out, s.d_o,
                     by_norm ? Rounded::kAlready : Rounded::kNotYet);
  run.weight_gradient(LinearId::kAttentionOut, d_out, a.o);
  AttentionBackward attention = attention_backward(run.layer().attention, s, a, batch.segments);
  Rope turn_back = rope_of(run.layer().attention, s.d_qkv, memory_.rope, batch.positions);
  turn_back.direction = RopeDirection::kBackward;
  const bool rotates = run.layer().attention.rotates;
  if (rotates) attention.rotation = turn_back.angles();
  run(attention);
  if (rotates && !attention.rotation) run(turn_back);
  if (s.qk) differentiate_heads(run, s, a.qkv, spec_);
  run.input_gradient(LinearId::kQkv, s.d_qkv, s.n2);
  run.weight_gradient(LinearId::kQkv, s.d_qkv, attention_input(s, x));
  if (!s.n1) return run(ResidualAdd{.a = s.d_mid, .b = s.n2, .y = d});
  run(run.norm_backward(NormId::kAttention,
                        {.dy = s.n2, .x = x, .rstd = s.rstd1, .d_residual = s.d_mid, .dx = d}, s,
                        spec_));
}

}  // namespace strata
