// Lists the operators of forward alone. Products and norms do not look beyond a row, and attention
// not beyond a query's keys, so what becomes of a token does not depend on the tokens that it
// shares a cell with.

#include "strata/model/llama_forward.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "heads.h"
#include "layer_runner.h"
#include "rope_memory.h"
#include "strata/model/llama.h"

namespace strata {

namespace {

std::int64_t parts_of(std::int64_t keys) {
  return (keys + AttentionForward::kPartKeys - 1) / AttentionForward::kPartKeys;
}

/// Returns these rows of the first H heads of `of`: [count, H, D].
TensorView query_heads(const AttentionSpec& spec, const TensorView& of, std::int64_t begin,
                       std::int64_t count) {
  return heads_of(of.slice_rows(begin, count), 0, spec.heads, spec.head_size);
}

}  // namespace

LlamaForward::Memory::Memory(const ModelSpec& spec, const ForwardSizes& z, Allocator& memory)
    : rope(spec, z.positions, accumulator_of(z.compute), memory) {
  const DType x = z.compute;
  const DType a = accumulator_of(x);
  const std::int64_t most = z.cell_tokens;
  const auto take = [&](std::string_view name, DType dtype, Shape shape) {
    return memory.tensor(Space::kDevice, name, dtype, shape);
  };
  const LayerSpec& layer = spec.common();
  const AttentionSpec& attention = layer.attention;
  n = take("scratch.norm", x, {most, spec.width});
  qkv = take("scratch.qkv", x, {most, layer.linear(LinearId::kQkv).out});
  o = take("scratch.attention", x, {most, layer.linear(LinearId::kAttentionOut).in});
  x_mid = take("scratch.x_mid", x, {std::min(most, FusedLinear::kMostRows), spec.width});
  gate_up = take("scratch.gate_up", x, {most, layer.linear(LinearId::kGateUp).out});
  act = take("scratch.act", x, {most, layer.linear(LinearId::kDown).in});
  rstd = take("scratch.rstd", a, {most});
  lse = take("scratch.lse", a, {attention.heads, most});
  if (z.singles > 0) {
    parts = take("scratch.attention_parts", a,
                 {z.singles, parts_of(z.positions), attention.heads * (attention.head_size + 2)});
  }
  if (z.int8_rows > 0) {
    const Shape rows{z.int8_rows, attention.kv_heads, attention.head_size};
    k = take("scratch.keys", x, rows);
    v = take("scratch.values", x, rows);
  }
  if (const std::int64_t rank = spec.largest_adapter_rank(); rank > 0) {
    adapters = {.h = take("scratch.adapter", x, {most, rank}),
                .y = take("scratch.adapter_output", x, {most, spec.widest_adapter_output()})};
  }
  head_x = take("scratch.head", x, {z.head_rows, spec.width});
  head_n = take("scratch.head_norm", x, {z.head_rows, spec.width});
  head_rstd = take("scratch.head_rstd", a, {z.head_rows});
  const std::int64_t stride = Llama::logits_stride(spec.vocabulary);
  const TensorView padded = take("scratch.logits", x, {z.head_rows, stride});
  logits = TensorView(padded.data, x, Shape{z.head_rows, spec.vocabulary}, stride);
  rounded = RoundedOperands(spec, most, x, memory);
}

void LlamaForward::prepare(const ModelSpec& spec, const ForwardSizes& sizes, Kernels& kernels) {
  const DType x = sizes.compute;
  struct Product {
    std::int64_t rows, in, out, stride_in, stride_out;
  };
  const auto prepare = [&](const Product& p) {
    kernels.prepare(Matmul{.a = ConstTensorView(nullptr, x, Shape{p.rows, p.in}, p.stride_in),
                           .b = ConstTensorView(nullptr, x, Shape{p.out, p.in}),
                           .out = TensorView(nullptr, x, Shape{p.rows, p.out}, p.stride_out),
                           .batch_invariant = true});
  };
  const std::int64_t tokens = sizes.cell_tokens;
  for (const Linear& linear : spec.common().linears) {
    prepare({tokens, linear.in, linear.out, linear.in, linear.out});
  }
  for (const LayerSpec& kind : spec.kinds) {
    for (const Linear& linear : kind.linears) {
      const std::int64_t rank = linear.adapter_rank();
      if (rank > 0) prepare({tokens, linear.in, rank, linear.in, rank});
      for (const Adapter& adapter : linear.adapters) {
        const std::int64_t rows = linear.sources.at(adapter.source).rows;
        prepare({tokens, adapter.rank, rows, rank, rows});
      }
    }
  }
  prepare({sizes.head_rows, spec.width, spec.vocabulary, spec.width,
           Llama::logits_stride(spec.vocabulary)});
}

LlamaForward::LlamaForward(const ModelSpec& spec, const ForwardSizes& sizes, Kernels& kernels,
                           Arenas& arenas)
    : spec_(spec), sizes_(sizes), kernels_(kernels), memory_(spec, sizes, arenas) {
  // Rows of the original length, which context_limit() has no sequence exceed.
  constexpr std::int64_t kShort = 0;
  fill_rope_tables(memory_.rope, kShort, arenas.device());
}

void LlamaForward::embedding(Stream& compute, const EmbeddingWeights& w, const ConstTensorView& ids,
                             const TensorView& x, const Tag& tag) {
  kernels_.run(
      compute,
      EmbeddingForward{.ids = ids, .table = w.table, .y = x, .scale = spec_.embedding_scale}, tag);
}

LayerRunner LlamaForward::layer_runner(Stream& compute, int layer, const LayerWeights& w,
                                       const Tag& tag) const {
  return {{kernels_, compute, tag},
          spec_.layer(layer),
          w,
          {.adapters = &memory_.adapters, .rounded = &memory_.rounded}};
}

void LlamaForward::layer(Stream& compute, int layer, const LayerWeights& w, const ForwardCell& cell,
                         const KvViews& kv, const ResidualStream& x, const Tag& tag) {
  const LayerRunner run = layer_runner(compute, layer, w, tag);
  const TensorView qkv = project(run, x);
  for (const KvPiece& piece : cell.pieces) {
    move_kv(compute, kv, piece.moves, tag);
    attend(run, cell, piece, kv, qkv);
  }
  finish(run, memory_.o.slice_rows(0, qkv.rows()), x);
}

void LlamaForward::attend(const LayerRunner& run, const ForwardCell& cell, const KvPiece& piece,
                          const KvViews& kv, const TensorView& all) {
  const AttentionSpec& attention = run.layer().attention;
  const auto of_piece = [&](const auto& view) {
    return view.slice_rows(piece.begin, piece.tokens);
  };
  const TensorView qkv = of_piece(all);
  const Attending of{piece, cell.segments.slice_rows(piece.first_segment, piece.segments), qkv,
                     of_piece(memory_.o)};
  const std::int64_t h = attention.heads;
  const std::int64_t kvh = attention.kv_heads;
  const std::int64_t d = attention.head_size;
  const NewKv added{.k = heads_of(qkv, h * d, kvh, d),
                    .v = heads_of(qkv, (h + kvh) * d, kvh, d),
                    .rows = of_piece(cell.rows)};
  const std::optional<Rope> rope = turn(attention, of_piece(cell.positions), qkv);
  Stream& compute = run.compute();
  if (piece.singles == piece.tokens && !cell.projected_is_read) {
    turn_append_and_attend_to_kv(kernels_, compute, kv, rope, added, singles_of(attention, of),
                                 run.tag());
    return;
  }
  turn_and_append_kv(kernels_, compute, kv, rope, added, run.tag());
  if (piece.singles > 0) {
    attend_to_kv(kernels_, compute, kv, singles_of(attention, of), run.tag());
  }
  attend_prompts(run, of, kv);
}

TensorView LlamaForward::before_attention(Stream& compute, int layer, const LayerWeights& w,
                                          const ForwardCell& cell, const ResidualStream& x,
                                          const Tag& tag) {
  const LayerRunner run = layer_runner(compute, layer, w, tag);
  const TensorView qkv = project(run, x);
  if (const std::optional<Rope> rope = turn(run.layer().attention, cell.positions, qkv)) {
    run(*rope);
  }
  return qkv;
}

void LlamaForward::after_attention(Stream& compute, int layer, const LayerWeights& w,
                                   const ConstTensorView& o, const ResidualStream& x,
                                   const Tag& tag) {
  finish(layer_runner(compute, layer, w, tag), o, x);
}

bool LlamaForward::may_add_later(std::int64_t tokens) { return tokens > FusedLinear::kMostRows; }

TensorView LlamaForward::project(const LayerRunner& run, const ResidualStream& x) {
  const Memory& m = memory_;
  const std::int64_t rows = x.x.rows();
  const TensorView n = m.n.slice_rows(0, rows);
  const TensorView qkv = m.qkv.slice_rows(0, rows);
  const TensorView rstd = m.rstd.slice_rows(0, rows);
  if (run.layer().has(NormId::kAttention)) {
    RmsNormForward norm = run.norm(NormId::kAttention, x.x, n, rstd, spec_);
    if (x.added) {
      norm.residual = x.added;
      norm.sum = x.x;
    }
    run.by_row(LinearId::kQkv, n, qkv, {.norm = norm});
  } else {
    if (x.added) run(ResidualAdd{.a = x.x, .b = x.added, .y = x.x});
    run.by_row(LinearId::kQkv, x.x, qkv);
  }
  if (!run.layer().normalises_heads()) return qkv;
  for (const NormedHeads& of : normed_heads(run.layer().attention)) {
    run.normalise(of, qkv, qkv, of.one_by_one(run.layer()) ? TensorView() : rstd, spec_);
  }
  return qkv;
}

std::optional<Rope> LlamaForward::turn(const AttentionSpec& spec, const ConstTensorView& positions,
                                       const TensorView& qkv) const {
  if (!spec.rotates) return std::nullopt;
  return rope_of(spec, qkv, memory_.rope, positions);
}

void LlamaForward::finish(const LayerRunner& run, const ConstTensorView& o,
                          const ResidualStream& x) {
  const LayerSpec& layer = run.layer();
  const bool few = !may_add_later(x.x.rows());  // and all parts of a product are one operator
  const auto of_cell = [&](const TensorView& view) { return view.slice_rows(0, x.x.rows()); };
  const Memory& m = memory_;
  const TensorView n = of_cell(m.n);
  const TensorView rstd = of_cell(m.rstd);
  const TensorView x_mid = few ? of_cell(m.x_mid) : x.x;
  const TensorView gate_up = of_cell(m.gate_up);
  const TensorView act = of_cell(m.act);
  const SwigluForward gate{.gate_up = gate_up, .y = act, .activation = layer.activation};
  run.by_row(LinearId::kAttentionOut, o, n);
  if (layer.has(NormId::kAttentionOut)) run(run.norm(NormId::kAttentionOut, n, n, rstd, spec_));
  if (layer.has(NormId::kMlp)) {
    RmsNormForward norm = run.norm(NormId::kMlp, x.x, n, rstd, spec_);
    norm.residual = n;
    norm.sum = x_mid;
    run.by_row(LinearId::kGateUp, n, gate_up, {.norm = norm, .gate = gate});
  } else {
    run(ResidualAdd{.a = x.x, .b = n, .y = x_mid});
    run.by_row(LinearId::kGateUp, x_mid, gate_up, {.gate = gate});
  }
  const bool normed = layer.has(NormId::kMlpOut);
  const TensorView down = few && !normed ? x.x : !few && x.adds ? x.adds : n;
  if (few && !normed) {
    return run.by_row(LinearId::kDown, act, down, {.residual = {.a = x_mid, .b = down, .y = down}});
  }
  run.by_row(LinearId::kDown, act, down);
  if (normed) run(run.norm(NormId::kMlpOut, down, down, rstd, spec_));
  if (few || !x.adds) run(ResidualAdd{.a = x_mid, .b = down, .y = x.x});
}

SingleTokens LlamaForward::singles_of(const AttentionSpec& spec, const Attending& of) const {
  const auto& [piece, segments, qkv, o] = of;
  const std::int64_t singles = piece.singles;
  SingleTokens tokens{
      .q = query_heads(spec, qkv, 0, singles),
      .segments = segments.slice_rows(0, singles),
      .pairs = piece.single_pairs,
      .scale = spec.scale,
      .window = spec.window,
      .score_cap = spec.score_cap,
      .o = query_heads(spec, o, 0, singles),
      .lse = TensorView(memory_.lse.data, memory_.lse.dtype, Shape{spec.heads, singles})};
  if (const TensorView& all = memory_.parts; all) {
    const std::int64_t seen =
        spec.window > 0 ? std::min(piece.longest, spec.window) : piece.longest;
    tokens.parts = TensorView(all.data, all.dtype, Shape{singles, parts_of(seen), all.shape[2]});
  }
  return tokens;
}

/// Tokens of prompts are computed apart from those past them, which a backend may compute in
/// another way: so it does not depend on the cell how a token is computed. Keys that are int8 are
/// brought back at their own rows, so that segments hold for them.
void LlamaForward::attend_prompts(const LayerRunner& run, const Attending& of, const KvViews& kv) {
  const Memory& m = memory_;
  const AttentionSpec& spec = run.layer().attention;
  const std::int64_t singles = of.piece.singles;
  const std::int64_t count = of.piece.tokens - singles;
  if (count == 0) return;
  const ConstTensorView segments = of.segments.slice_rows(singles, of.segments.rows() - singles);
  TensorView k = kv.k;
  TensorView v = kv.v;
  if (kv.is_int8()) {
    k = m.k.slice_rows(0, kv.k.rows());
    v = m.v.slice_rows(0, kv.v.rows());
    run(DequantizeKv{
        .cache = kv.int8(), .segments = segments, .k = k, .v = v, .seen = of.piece.prompt_rows});
  }
  run(AttentionForward{.q = query_heads(spec, of.qkv, singles, count),
                       .k = k,
                       .v = v,
                       .segments = {.table = segments, .pairs = of.piece.prompt_pairs},
                       .o = query_heads(spec, of.o, singles, count),
                       .lse = TensorView(m.lse.data, m.lse.dtype, Shape{spec.heads, count}),
                       .scale = spec.scale,
                       .window = spec.window,
                       .score_cap = spec.score_cap});
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
                       .eps = spec_.norm_eps,
                       .offset = spec_.norm_offset},
              .product = linear_by_row(head_n, w.projection, logits, spec_.logits_scale)});
  if (spec_.logits_cap > 0) {
    run(SoftCapForward{.x = logits, .y = logits, .cap = spec_.logits_cap});
  }
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
