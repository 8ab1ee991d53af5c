// The lists of operators of forward alone. Products and norms do not look beyond a row, and
// attention not beyond a query's keys, so what becomes of a token does not depend on the tokens
// that it shares a cell with.

#include "strata/model/llama_forward.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cell_runner.h"
#include "heads.h"
#include "strata/base/convert.h"
#include "strata/model/llama.h"
#include "strata/model/rope_table.h"

namespace strata {

LlamaForward::Memory::Memory(const LlamaConfig& c, const ForwardSizes& z, Allocator& memory) {
  const DType x = z.compute;
  const DType a = accumulator_of(x);
  const std::int64_t most = z.cell_tokens;
  const auto take = [&](std::string_view name, DType dtype, Shape shape) {
    return memory.tensor(Space::kDevice, name, dtype, shape);
  };
  n = take("scratch.norm", x, {most, c.hidden_size});
  qkv = take("scratch.qkv", x, {most, c.query_width() + 2 * c.kv_width()});
  o = take("scratch.attention", x, {most, c.query_width()});
  x_mid = take("scratch.x_mid", x, {most, c.hidden_size});
  gate_up = take("scratch.gate_up", x, {most, 2 * c.intermediate_size});
  act = take("scratch.act", x, {most, c.intermediate_size});
  rstd = take("scratch.rstd", a, {most});
  lse = take("scratch.lse", a, {c.num_attention_heads, most});
  head_x = take("scratch.head", x, {z.head_rows, c.hidden_size});
  head_n = take("scratch.head_norm", x, {z.head_rows, c.hidden_size});
  head_rstd = take("scratch.head_rstd", a, {z.head_rows});
  const TensorView padded = take("scratch.logits", x, {z.head_rows, Llama::logits_stride(c)});
  logits = TensorView(padded.data, x, Shape{z.head_rows, c.vocab_size}, Llama::logits_stride(c));
  cos = take("rope.cos", a, {z.positions, c.head_size() / 2});
  sin = take("rope.sin", a, {z.positions, c.head_size() / 2});
  rope_staging = memory.allocate(Space::kPinned, "rope.staging",
                                 static_cast<std::size_t>(cos.elements()) * size_of(a));
}

LlamaForward::LlamaForward(const LlamaConfig& config, const ForwardSizes& sizes, Kernels& kernels,
                           Arenas& arenas)
    : config_(config), sizes_(sizes), kernels_(kernels), memory_(config, sizes, arenas) {
  Device& device = arenas.device();
  Stream& in = device.stream(Lane::kActivationsIn);
  const RopeTable table = make_rope_table(config_, sizes_.positions);
  for (const auto& [values, view] :
       {std::pair{&table.cos, &memory_.cos}, std::pair{&table.sin, &memory_.sin}}) {
    const std::size_t bytes = view->bytes().bytes;
    store_as(*values, view->dtype, {memory_.rope_staging, bytes});
    in.copy(view->data, memory_.rope_staging, bytes, {.phase = "start"});
    device.wait(in.record());
  }
}

void LlamaForward::embedding(Stream& compute, const EmbeddingWeights& w, const ConstTensorView& ids,
                             const TensorView& x, const Tag& tag) {
  kernels_.run(compute, EmbeddingForward{.ids = ids, .table = w.table, .y = x}, tag);
}

void LlamaForward::layer(Stream& compute, const LayerWeights& w, const ForwardCell& cell,
                         const KvViews& kv, const TensorView& x, const Tag& tag) {
  const CellRunner run(kernels_, compute, tag);
  const std::int64_t tokens = x.rows();
  const auto of_cell = [&](const TensorView& view) { return view.slice_rows(0, tokens); };
  const Memory& m = memory_;
  const std::int64_t h = config_.num_attention_heads;
  const std::int64_t kvh = config_.kv_heads();
  const std::int64_t d = config_.head_size();
  const TensorView n = of_cell(m.n);
  const TensorView qkv = of_cell(m.qkv);
  const TensorView o = of_cell(m.o);
  const TensorView x_mid = of_cell(m.x_mid);
  const TensorView gate_up = of_cell(m.gate_up);
  const TensorView act = of_cell(m.act);
  RmsNormForward norm{.x = x,
                      .residual = {},
                      .weight = w.attention_norm,
                      .sum = {},
                      .y = n,
                      .rstd = of_cell(m.rstd),
                      .eps = config_.rms_norm_eps};
  run(norm);
  run.linear(n, w.qkv, qkv);
  run(Rope{
      .x = heads_of(qkv, 0, h + kvh, d), .positions = cell.positions, .cos = m.cos, .sin = m.sin});
  run(AppendKv{.k = heads_of(qkv, h * d, kvh, d),
               .v = heads_of(qkv, (h + kvh) * d, kvh, d),
               .rows = cell.rows,
               .cache_k = kv.k,
               .cache_v = kv.v});
  run(AttentionForward{.q = heads_of(qkv, 0, h, d),
                       .k = kv.k,
                       .v = kv.v,
                       .segments = cell.segments,
                       .o = heads_of(o, 0, h, d),
                       .lse = TensorView(m.lse.data, m.lse.dtype, Shape{h, tokens}),
                       .scale = 1.0 / std::sqrt(static_cast<double>(d))});
  run.linear(o, w.attention_out, x_mid);
  norm.residual = x_mid;
  norm.sum = x_mid;
  norm.weight = w.mlp_norm;
  run(norm);
  run.linear(n, w.gate_up, gate_up);
  run(SwigluForward{.gate_up = gate_up, .y = act});
  run.linear(act, w.down, x);
  run(ResidualAdd{.a = x_mid, .b = x, .y = x});
}

TensorView LlamaForward::head(Stream& compute, const HeadWeights& w, const ConstTensorView& x,
                              const ConstTensorView& after, const Tag& tag) {
  const CellRunner run(kernels_, compute, tag);
  const std::int64_t rows = after.elements();
  const TensorView head_x = memory_.head_x.slice_rows(0, rows);
  const TensorView head_n = memory_.head_n.slice_rows(0, rows);
  const TensorView logits = memory_.logits.slice_rows(0, rows);
  run(EmbeddingForward{.ids = after, .table = x, .y = head_x});
  run(RmsNormForward{.x = head_x,
                     .residual = {},
                     .weight = w.norm,
                     .sum = {},
                     .y = head_n,
                     .rstd = memory_.head_rstd.slice_rows(0, rows),
                     .eps = config_.rms_norm_eps});
  run.linear(head_n, w.projection, logits);
  return logits;
}

void LlamaForward::sample(Stream& compute, const HeadWeights& w, const ConstTensorView& x,
                          const SampledTokens& sampled, const Tag& tag) {
  const std::int64_t all = sampled.after.elements();
  for (std::int64_t begin = 0; begin < all; begin += sizes_.head_rows) {
    const std::int64_t count = std::min(sizes_.head_rows, all - begin);
    const TensorView logits = head(compute, w, x, sampled.after.slice_rows(begin, count), tag);
    kernels_.run(compute,
                 SampleTokens{.logits = logits,
                              .rows = sampled.rows.slice_rows(begin, count),
                              .seen = sampled.seen,
                              .token = sampled.token.slice_rows(begin, count),
                              .logprob = sampled.logprob.slice_rows(begin, count)},
                 tag);
  }
}

void LlamaForward::score(Stream& compute, const HeadWeights& w, const ConstTensorView& x,
                         const ConstTensorView& after, const ConstTensorView& targets,
                         const TensorView& loss, const TensorView& lse, const Tag& tag) {
  const std::int64_t all = after.elements();
  for (std::int64_t begin = 0; begin < all; begin += sizes_.head_rows) {
    const std::int64_t count = std::min(sizes_.head_rows, all - begin);
    const TensorView logits = head(compute, w, x, after.slice_rows(begin, count), tag);
    kernels_.run(compute,
                 CrossEntropy{.logits = logits,
                              .targets = targets.slice_rows(begin, count),
                              .grad_scale = {},
                              .loss = loss.slice_rows(begin, count),
                              .lse = lse.slice_rows(begin, count),
                              .d_logits = {}},
                 tag);
  }
}

}  // namespace strata
