// The lists of operators of forward alone. Products and norms do not look beyond a row, and
// attention not beyond a query's keys, so what becomes of a token does not depend on the tokens
// that it shares a cell with.

#include "strata/model/llama_forward.h"

#include <algorithm>
#include <utility>

#include "cell_runner.h"
#include "heads.h"
#include "rope_copy.h"
#include "strata/model/llama.h"

namespace strata {

namespace {

std::int64_t parts_of(std::int64_t keys) {
  return (keys + AttentionForward::kPartKeys - 1) / AttentionForward::kPartKeys;
}

}  // namespace

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
  x_mid = take("scratch.x_mid", x, {std::min(most, FusedLinear::kMostRows), c.hidden_size});
  gate_up = take("scratch.gate_up", x, {most, 2 * c.intermediate_size});
  act = take("scratch.act", x, {most, c.intermediate_size});
  rstd = take("scratch.rstd", a, {most});
  lse = take("scratch.lse", a, {c.num_attention_heads, most});
  if (z.singles > 0) {
    parts = take("scratch.attention_parts", a,
                 {z.singles, parts_of(z.positions), c.num_attention_heads * (c.head_size() + 2)});
  }
  if (z.int8_rows > 0) {
    const Shape rows{z.int8_rows, c.kv_heads(), c.head_size()};
    k = take("scratch.keys", x, rows);
    v = take("scratch.values", x, rows);
  }
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

void LlamaForward::prepare(const LlamaConfig& c, const ForwardSizes& sizes, Kernels& kernels) {
  const DType x = sizes.compute;
  const auto linear = [&](std::int64_t rows, std::int64_t in, std::int64_t out,
                          std::int64_t stride) {
    kernels.prepare(Matmul{.a = ConstTensorView(nullptr, x, Shape{rows, in}),
                           .b = ConstTensorView(nullptr, x, Shape{out, in}),
                           .out = TensorView(nullptr, x, Shape{rows, out}, stride),
                           .batch_invariant = true});
  };
  const std::int64_t rows = sizes.cell_tokens;
  const std::int64_t qkv = c.query_width() + 2 * c.kv_width();
  linear(rows, c.hidden_size, qkv, qkv);
  linear(rows, c.query_width(), c.hidden_size, c.hidden_size);
  linear(rows, c.hidden_size, 2 * c.intermediate_size, 2 * c.intermediate_size);
  linear(rows, c.intermediate_size, c.hidden_size, c.hidden_size);
  linear(sizes.head_rows, c.hidden_size, c.vocab_size, Llama::logits_stride(c));
}

LlamaForward::LlamaForward(const LlamaConfig& config, const ForwardSizes& sizes, Kernels& kernels,
                           Arenas& arenas)
    : config_(config), sizes_(sizes), kernels_(kernels), memory_(config, sizes, arenas) {
  copy_rope_table(config_, arenas.device(), memory_.cos, memory_.sin,
                  {memory_.rope_staging, memory_.cos.bytes().bytes});
}

void LlamaForward::embedding(Stream& compute, const EmbeddingWeights& w, const ConstTensorView& ids,
                             const TensorView& x, const Tag& tag) {
  kernels_.run(compute, EmbeddingForward{.ids = ids, .table = w.table, .y = x}, tag);
}

void LlamaForward::layer(Stream& compute, const LayerWeights& w, const ForwardCell& cell,
                         const KvViews& kv, const ResidualStream& x, const Tag& tag) {
  const TensorView qkv = project(compute, w, x, tag);
  const TensorView o = memory_.o.slice_rows(0, qkv.rows());
  const std::int64_t h = config_.num_attention_heads;
  const std::int64_t kvh = config_.kv_heads();
  const std::int64_t d = config_.head_size();
  const NewKv added{.k = heads_of(qkv, h * d, kvh, d),
                    .v = heads_of(qkv, (h + kvh) * d, kvh, d),
                    .rows = cell.rows};
  if (cell.singles == qkv.rows() && !cell.projected_is_read) {
    turn_append_and_attend_to_kv(kernels_, compute, kv, turn(cell, qkv), added,
                                 singles_of(cell, qkv, o), tag);
  } else {
    turn_and_append_kv(kernels_, compute, kv, turn(cell, qkv), added, tag);
    attend(compute, cell, kv, qkv, o, tag);
  }
  after_attention(compute, w, o, x, tag);
}

TensorView LlamaForward::before_attention(Stream& compute, const LayerWeights& w,
                                          const ForwardCell& cell, const ResidualStream& x,
                                          const Tag& tag) {
  const TensorView qkv = project(compute, w, x, tag);
  kernels_.run(compute, turn(cell, qkv), tag);
  return qkv;
}

bool LlamaForward::may_add_later(std::int64_t tokens) { return tokens > FusedLinear::kMostRows; }

TensorView LlamaForward::project(Stream& compute, const LayerWeights& w, const ResidualStream& x,
                                 const Tag& tag) {
  const CellRunner run(kernels_, compute, tag);
  const Memory& m = memory_;
  const std::int64_t rows = x.x.rows();
  const TensorView n = m.n.slice_rows(0, rows);
  const TensorView qkv = m.qkv.slice_rows(0, rows);
  run.by_row({.norm = {.x = x.x,
                       .residual = x.added,
                       .weight = w.attention_norm,
                       .sum = x.added ? x.x : TensorView{},
                       .y = n,
                       .rstd = m.rstd.slice_rows(0, rows),
                       .eps = config_.rms_norm_eps},
              .product = linear_by_row(n, w.qkv, qkv)});
  return qkv;
}

Rope LlamaForward::turn(const ForwardCell& cell, const TensorView& qkv) const {
  const std::int64_t turned = config_.num_attention_heads + config_.kv_heads();
  return {.x = heads_of(qkv, 0, turned, config_.head_size()),
          .positions = cell.positions,
          .cos = memory_.cos,
          .sin = memory_.sin};
}

void LlamaForward::after_attention(Stream& compute, const LayerWeights& w, const ConstTensorView& o,
                                   const ResidualStream& x, const Tag& tag) {
  const CellRunner run(kernels_, compute, tag);
  const bool few = !may_add_later(x.x.rows());  // and all parts of a product are one operator
  const auto of_cell = [&](const TensorView& view) { return view.slice_rows(0, x.x.rows()); };
  const Memory& m = memory_;
  const TensorView n = of_cell(m.n);
  const TensorView x_mid = few ? of_cell(m.x_mid) : x.x;
  const TensorView gate_up = of_cell(m.gate_up);
  const TensorView act = of_cell(m.act);
  run.by_row({.product = linear_by_row(o, w.attention_out, n)});
  run.by_row({.norm = {.x = x.x,
                       .residual = n,
                       .weight = w.mlp_norm,
                       .sum = x_mid,
                       .y = n,
                       .rstd = of_cell(m.rstd),
                       .eps = config_.rms_norm_eps},
              .product = linear_by_row(n, w.gate_up, gate_up),
              .gate = {.gate_up = gate_up, .y = act}});
  const TensorView down = few ? x.x : x.adds ? x.adds : n;
  if (few) {
    return run.by_row({.product = linear_by_row(act, w.down, down),
                       .residual = {.a = x_mid, .b = down, .y = down}});
  }
  run(linear_by_row(act, w.down, down));
  if (!x.adds) run(ResidualAdd{.a = x.x, .b = down, .y = x.x});
}

TensorView LlamaForward::query_heads(const TensorView& of, std::int64_t begin,
                                     std::int64_t count) const {
  return heads_of(of.slice_rows(begin, count), 0, config_.num_attention_heads, config_.head_size());
}

SingleTokens LlamaForward::singles_of(const ForwardCell& cell, const TensorView& qkv,
                                      const TensorView& o) const {
  const std::int64_t singles = cell.singles;
  SingleTokens tokens{.q = query_heads(qkv, 0, singles),
                      .segments = cell.segments.slice_rows(0, singles),
                      .pairs = cell.single_pairs,
                      .o = query_heads(o, 0, singles),
                      .lse = TensorView(memory_.lse.data, memory_.lse.dtype,
                                        Shape{config_.num_attention_heads, singles})};
  if (const TensorView& all = memory_.parts; all) {
    tokens.parts =
        TensorView(all.data, all.dtype, Shape{singles, parts_of(cell.longest), all.shape[2]});
  }
  return tokens;
}

/// Tokens past their prompts are computed apart from those of prompts, which a backend may compute
/// in another way: so it does not depend on the cell how a token is computed.
void LlamaForward::attend(Stream& compute, const ForwardCell& cell, const KvViews& kv,
                          const TensorView& qkv, const TensorView& o, const Tag& tag) {
  const std::int64_t singles = cell.singles;
  const std::int64_t others = qkv.rows() - singles;
  if (singles > 0) attend_to_kv(kernels_, compute, kv, singles_of(cell, qkv, o), tag);
  if (others == 0) return;
  attend_prompts(compute, cell, kv, query_heads(qkv, singles, others),
                 query_heads(o, singles, others), tag);
}

/// Keys that are int8 are brought back at their own rows, so that segments hold for them.
void LlamaForward::attend_prompts(Stream& compute, const ForwardCell& cell, const KvViews& kv,
                                  const TensorView& q, const TensorView& o, const Tag& tag) {
  const Memory& m = memory_;
  const ConstTensorView segments =
      cell.segments.slice_rows(cell.singles, cell.segments.rows() - cell.singles);
  if (kv.is_int8()) {
    kernels_.run(
        compute,
        DequantizeKv{
            .cache = kv.int8(), .segments = segments, .k = m.k, .v = m.v, .seen = cell.prompt_rows},
        tag);
  }
  kernels_.run(
      compute,
      AttentionForward{.q = q,
                       .k = kv.is_int8() ? m.k : kv.k,
                       .v = kv.is_int8() ? m.v : kv.v,
                       .segments = {.table = segments, .pairs = cell.prompt_pairs},
                       .o = o,
                       .lse = TensorView(m.lse.data, m.lse.dtype, Shape{q.shape[1], q.rows()}),
                       .scale = attention_scale(q.shape[2])},
      tag);
}

TensorView LlamaForward::head(Stream& compute, const HeadWeights& w, const ConstTensorView& x,
                              const ConstTensorView& after, const Tag& tag) {
  const CellRunner run(kernels_, compute, tag);
  const std::int64_t rows = after.elements();
  const TensorView head_x = memory_.head_x.slice_rows(0, rows);
  const TensorView head_n = memory_.head_n.slice_rows(0, rows);
  const TensorView logits = memory_.logits.slice_rows(0, rows);
  run(EmbeddingForward{.ids = after, .table = x, .y = head_x});
  run.by_row({.norm = {.x = head_x,
                       .residual = {},
                       .weight = w.norm,
                       .sum = {},
                       .y = head_n,
                       .rstd = memory_.head_rstd.slice_rows(0, rows),
                       .eps = config_.rms_norm_eps},
              .product = linear_by_row(head_n, w.projection, logits)});
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
