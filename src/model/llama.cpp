#include "strata/model/llama.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/convert.h"
#include "strata/model/rope_table.h"

namespace strata {

/// Views of every temporary. Names without "d_" live through forward and are used again by the
/// backward of the same cell; see layer_backward for what is reused in place. What every cell keeps
/// is absent.
struct Llama::Scratch {
  TensorView n1, qkv, o, x_mid, n2, gate_up, act, d_mid, d_o, d_qkv;  // [N, ...] X
  TensorView rstd1, rstd2, lse, delta;                                // A
  TensorView dq_sum;                                                  // A, or absent
  TensorView norm_partials;                                           // [256, C] A
  TensorView head_n, head_dn, head_logits, head_rstd, head_lse;       // [chunk, ...]
  TensorView cos, sin;                                                // [T, D/2] A
};

struct Llama::LayerViews {
  TensorView attention_norm, qkv, attention_out, mlp_norm, gate_up, down;
};

struct Llama::HeadViews {
  TensorView norm, projection;
};

/// What the head's forward leaves of a chunk of tokens.
struct Llama::HeadChunk {
  std::int64_t begin = 0;  ///< first token
  std::int64_t count = 0;
  ConstTensorView x;  ///< [count, C] X
  TensorView n;       ///< [count, C] X, x normalised
  TensorView rstd;    ///< [count] A
  TensorView logits;  ///< [count, V] X, strided
};

namespace {

using Allocate = std::function<TensorView(std::string_view what, DType dtype, Shape shape)>;

/// Lists every temporary once, for the plan (which only counts) and for the constructor.
template <class Scratch>
void carve(Scratch& s, const LlamaConfig& c, const LlamaSizes& z, const Allocate& allocate) {
  const DType x = z.compute;
  const DType a = accumulator_of(x);
  const std::int64_t n = z.cell_tokens;
  const std::int64_t hd = c.num_attention_heads * c.head_size();
  const std::int64_t qkv = hd + 2 * c.kv_heads() * c.head_size();
  const auto unless_kept = [&](KeepLevel from, std::string_view what, DType dtype, Shape shape) {
    return z.kept_by_all >= from ? TensorView() : allocate(what, dtype, shape);
  };
  s.n1 = allocate("scratch.attention_norm", x, {n, c.hidden_size});
  s.qkv = unless_kept(KeepLevel::kSelective, "scratch.qkv", x, {n, qkv});
  s.o = unless_kept(KeepLevel::kAttention, "scratch.attention", x, {n, hd});
  s.x_mid = unless_kept(KeepLevel::kAttentionOut, "scratch.x_mid", x, {n, c.hidden_size});
  s.n2 = allocate("scratch.mlp_norm", x, {n, c.hidden_size});
  s.gate_up = unless_kept(KeepLevel::kFull, "scratch.gate_up", x, {n, 2 * c.intermediate_size});
  s.act = allocate("scratch.act", x, {n, c.intermediate_size});
  s.d_mid = allocate("scratch.d_mid", x, {n, c.hidden_size});
  s.d_o = allocate("scratch.d_attention", x, {n, hd});
  s.d_qkv = allocate("scratch.d_qkv", x, {n, qkv});
  s.rstd1 = allocate("scratch.rstd", a, {n});
  s.rstd2 = allocate("scratch.rstd", a, {n});
  s.lse = unless_kept(KeepLevel::kAttention, "scratch.lse", a, {c.num_attention_heads, n});
  s.delta = allocate("scratch.delta", a, {c.num_attention_heads, n});
  if (z.add_dq) {
    s.dq_sum = allocate("scratch.dq_sum", a, {n, c.num_attention_heads, c.head_size()});
  }
  s.norm_partials =
      allocate("scratch.norm_partials", a, {RmsNormBackward::kWorkspaceRows, c.hidden_size});
  s.head_n = allocate("scratch.head_norm", x, {z.head_chunk, c.hidden_size});
  s.head_dn = allocate("scratch.head_d_norm", x, {z.head_chunk, c.hidden_size});
  s.head_logits = allocate("scratch.logits", x, {z.head_chunk, Llama::logits_stride(c)});
  s.head_rstd = allocate("scratch.head_rstd", a, {z.head_chunk});
  s.head_lse = allocate("scratch.head_lse", a, {z.head_chunk});
  s.cos = allocate("rope.cos", a, {z.row_tokens, c.head_size() / 2});
  s.sin = allocate("rope.sin", a, {z.row_tokens, c.head_size() / 2});
}

/// [N, width] rows of a packed buffer, columns [begin, begin + heads * D), as [N, heads, D].
TensorView heads_of(const TensorView& packed, std::int64_t begin, std::int64_t heads,
                    std::int64_t head_size) {
  std::byte* data = static_cast<std::byte*>(packed.data) +
                    static_cast<std::size_t>(begin) * size_of(packed.dtype);
  return {data, packed.dtype, Shape{packed.rows(), heads, head_size}, packed.row_stride};
}

/// Attention on the activations `a`, which lie in scratch or are kept.
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

/// Its backward, from s.d_o to s.d_qkv.
template <class Scratch>
AttentionBackward attention_backward(const LlamaConfig& c, const Scratch& s,
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

std::vector<LedgerEntry> Llama::scratch_ledger(const LlamaConfig& config, const LlamaSizes& sizes) {
  std::vector<LedgerEntry> ledger;
  Scratch unused;
  carve(unused, config, sizes, [&](std::string_view what, DType dtype, Shape shape) {
    const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
    ledger.push_back({std::string(what), round_up(bytes, Arena::kAlignment)});
    return TensorView();
  });
  return ledger;
}

std::int64_t Llama::logits_stride(const LlamaConfig& config) {
  // Rows start at multiples of 16 bytes, whatever the vocabulary.
  return (config.vocab_size + 7) / 8 * 8;
}

void Llama::prepare(Kernels& kernels, const LlamaConfig& config, const LlamaSizes& sizes) {
  Scratch s;
  // Only shapes are looked at, but views without an address count as left out.
  alignas(Arena::kAlignment) static std::byte address;
  carve(s, config, sizes, [&](std::string_view, DType dtype, Shape shape) {
    return TensorView(&address, dtype, shape);
  });
  AttentionSegments segments;
  segments.uniform_length = sizes.row_tokens;
  segments.self_attention = true;
  const KeptActivations a{
      .o = s.o, .lse = s.lse, .x_mid = s.x_mid, .qkv = s.qkv, .gate_up = s.gate_up};
  kernels.prepare(attention_forward(config, a, segments));
  kernels.prepare(attention_backward(config, s, a, segments));
}

std::size_t Llama::rope_bytes(const LlamaConfig& config, const LlamaSizes& sizes) {
  return static_cast<std::size_t>(sizes.row_tokens * config.head_size() / 2) *
         size_of(accumulator_of(sizes.compute));
}

std::int64_t Llama::default_head_chunk(const LlamaConfig& config, std::int64_t cell_tokens) {
  // Large enough to fill a GPU's multiprocessors, small enough that logits stay near 128 MiB.
  constexpr std::int64_t kElements = std::int64_t{64} << 20;
  const std::int64_t fitting = std::max<std::int64_t>(kElements / logits_stride(config), 256);
  return std::min(cell_tokens, fitting / 256 * 256);
}

Llama::Llama(const LlamaConfig& config, const LlamaSizes& sizes, Kernels& kernels,
             Arena& device_arena, std::span<std::byte> staging)
    : config_(config),
      sizes_(sizes),
      layout_(make_layout(config)),
      kernels_(kernels),
      scratch_(std::make_unique<Scratch>()) {
  carve(*scratch_, config_, sizes_, [&](std::string_view what, DType dtype, Shape shape) {
    return device_arena.allocate_tensor(what, dtype, shape);
  });
  Device& device = device_arena.device();
  Stream& in = device.stream(Lane::kActivationsIn);
  const RopeTable table = make_rope_table(config_, sizes_.row_tokens);
  for (const auto& [values, view] :
       {std::pair{&table.cos, &scratch_->cos}, std::pair{&table.sin, &scratch_->sin}}) {
    store_as(*values, view->dtype, staging);
    in.copy(view->data, staging.data(), view->bytes().bytes, {.phase = "start"});
    device.wait(in.record());
  }
}

Llama::~Llama() = default;

Llama::LayerViews Llama::layer_views(int layer, std::byte* base, DType dtype) const {
  const Block& block = layout_.blocks[BlockId(layer + 1)];
  const auto view = [&](std::size_t i) {
    const Segment& s = block.segments[i];
    std::byte* data = base + static_cast<std::size_t>(s.offset) * size_of(dtype);
    return s.rows == 1 && s.initializer == Initializer::kOnes
               ? TensorView(data, dtype, Shape{s.cols})
               : TensorView(data, dtype, Shape{s.rows, s.cols});
  };
  return {view(0), view(1), view(2), view(3), view(4), view(5)};
}

Llama::HeadViews Llama::head_views(std::span<std::byte* const> blocks, DType dtype) const {
  const Block& head = layout_.blocks[layout_.blocks.last()];
  const Shape table{config_.vocab_size, config_.hidden_size};
  HeadViews views;
  views.norm = TensorView(blocks[0], dtype, Shape{config_.hidden_size});
  views.projection =
      config_.tie_word_embeddings
          ? TensorView(blocks[1], dtype, table)
          : TensorView(
                blocks[0] + static_cast<std::size_t>(head.segments[1].offset) * size_of(dtype),
                dtype, table);
  return views;
}

ConstTensorView Llama::last_logits() const {
  return TensorView(scratch_->head_logits.data, sizes_.compute,
                    Shape{sizes_.head_chunk, config_.vocab_size}, logits_stride(config_));
}

void Llama::embedding_forward(Stream& compute, std::span<std::byte* const> weights,
                              const CellBatch& batch, TensorView y, const Tag& tag) {
  const Shape table{config_.vocab_size, config_.hidden_size};
  kernels_.run(
      compute,
      EmbeddingForward{
          .ids = batch.ids, .table = ConstTensorView(weights[0], sizes_.compute, table), .y = y},
      tag);
}

void Llama::embedding_backward(Stream& compute, std::span<std::byte* const> gradients,
                               const CellBatch& batch, ConstTensorView dy, const Tag& tag) {
  const Shape table{config_.vocab_size, config_.hidden_size};
  kernels_.run(
      compute,
      EmbeddingBackward{.ids = batch.ids,
                        .order = batch.order,
                        .dy = dy,
                        .d_table = TensorView(gradients[0], accumulator_of(sizes_.compute), table)},
      tag);
}

/// Where the activations of a cell are: in scratch, unless they are kept.
KeptActivations Llama::places(const KeptActivations& kept) const {
  const Scratch& s = *scratch_;
  return {.o = kept.o ? kept.o : s.o,
          .lse = kept.lse ? kept.lse : s.lse,
          .x_mid = kept.x_mid ? kept.x_mid : s.x_mid,
          .qkv = kept.qkv ? kept.qkv : s.qkv,
          .gate_up = kept.gate_up ? kept.gate_up : s.gate_up};
}

/// The forward list of a layer up to [gate | up], into `a` and the norms' scratch: everything that
/// backward needs. Leaves out what makes those that are `there` already.
void Llama::layer_activations(Stream& compute, const LayerViews& w, const CellBatch& batch,
                              ConstTensorView x, const KeptActivations& there,
                              const KeptActivations& a, const Tag& tag) {
  const Scratch& s = *scratch_;
  const std::int64_t h = config_.num_attention_heads;
  const std::int64_t kv = config_.kv_heads();
  const std::int64_t d = config_.head_size();
  const double eps = config_.rms_norm_eps;

  kernels_.run(compute,
               RmsNormForward{.x = x,
                              .residual = {},
                              .weight = w.attention_norm,
                              .sum = {},
                              .y = s.n1,
                              .rstd = s.rstd1,
                              .eps = eps},
               tag);
  if (!there.qkv) {
    const TensorView qk = heads_of(a.qkv, 0, h + kv, d);
    kernels_.run(compute, Matmul{.a = s.n1, .b = w.qkv, .out = a.qkv}, tag);
    kernels_.run(compute, Rope{.x = qk, .positions = batch.positions, .cos = s.cos, .sin = s.sin},
                 tag);
  }
  if (!there.o) kernels_.run(compute, attention_forward(config_, a, batch.segments), tag);
  // The norm of a sum is that of its rounded value, so it is the same when the sum is there.
  RmsNormForward mlp_norm{.x = a.x_mid,
                          .residual = {},
                          .weight = w.mlp_norm,
                          .sum = {},
                          .y = s.n2,
                          .rstd = s.rstd2,
                          .eps = eps};
  if (!there.x_mid) {
    kernels_.run(compute, Matmul{.a = a.o, .b = w.attention_out, .out = a.x_mid}, tag);
    mlp_norm.x = x;
    mlp_norm.residual = a.x_mid;
    mlp_norm.sum = a.x_mid;
  }
  kernels_.run(compute, mlp_norm, tag);
  if (!there.gate_up) {
    kernels_.run(compute, Matmul{.a = s.n2, .b = w.gate_up, .out = a.gate_up}, tag);
  }
}

void Llama::layer_forward(Stream& compute, int layer, std::span<std::byte* const> weights,
                          const CellBatch& batch, ConstTensorView x, const KeptActivations& kept,
                          TensorView y, const Tag& tag) {
  const Scratch& s = *scratch_;
  const LayerViews w = layer_views(layer, weights[0], sizes_.compute);
  const KeptActivations a = places(kept);
  layer_activations(compute, w, batch, x, {}, a, tag);
  kernels_.run(compute, SwigluForward{.gate_up = a.gate_up, .y = s.act}, tag);
  kernels_.run(compute, Matmul{.a = s.act, .b = w.down, .out = y}, tag);
  kernels_.run(compute, ResidualAdd{.a = a.x_mid, .b = y, .y = y}, tag);
}

void Llama::layer_backward(Stream& compute, int layer, std::span<std::byte* const> weights,
                           std::span<std::byte* const> gradients, const CellBatch& batch,
                           ConstTensorView x, const KeptActivations& kept, TensorView d,
                           const Tag& tag) {
  const Scratch& s = *scratch_;
  const LayerViews w = layer_views(layer, weights[0], sizes_.compute);
  const LayerViews dw = layer_views(layer, gradients[0], accumulator_of(sizes_.compute));
  const auto input_gradient = [&](ConstTensorView dy, ConstTensorView weight, TensorView dx) {
    kernels_.run(compute, Matmul{.a = dy, .b = weight, .out = dx, .layout = MatmulLayout::kNN},
                 tag);
  };
  const auto weight_gradient = [&](ConstTensorView dy, ConstTensorView in, TensorView out) {
    kernels_.run(compute,
                 Matmul{.a = dy,
                        .b = in,
                        .out = out,
                        .layout = MatmulLayout::kTN,
                        .update = MatmulUpdate::kAccumulate},
                 tag);
  };
  const KeptActivations a = places(kept);
  layer_activations(compute, w, batch, x, kept, a, tag);

  // MLP: act becomes d_act and then act again, gate_up becomes its gradient.
  input_gradient(d, w.down, s.act);
  kernels_.run(
      compute,
      SwigluBackward{.d_y = s.act, .gate_up = a.gate_up, .d_gate_up = a.gate_up, .y = s.act}, tag);
  weight_gradient(d, s.act, dw.down);
  input_gradient(a.gate_up, w.gate_up, s.d_mid);
  weight_gradient(a.gate_up, s.n2, dw.gate_up);
  kernels_.run(compute,
               RmsNormBackward{.dy = s.d_mid,
                               .x = a.x_mid,
                               .weight = w.mlp_norm,
                               .rstd = s.rstd2,
                               .d_residual = d,
                               .dx = s.d_mid,
                               .d_weight = dw.mlp_norm,
                               .workspace = s.norm_partials},
               tag);

  // Attention: n2 is free from here on and takes the gradient of n1.
  input_gradient(s.d_mid, w.attention_out, s.d_o);
  weight_gradient(s.d_mid, a.o, dw.attention_out);
  AttentionBackward attention = attention_backward(config_, s, a, batch.segments);
  attention.rotation = {.positions = batch.positions, .cos = s.cos, .sin = s.sin};
  kernels_.run(compute, attention, tag);
  input_gradient(s.d_qkv, w.qkv, s.n2);
  weight_gradient(s.d_qkv, s.n1, dw.qkv);
  kernels_.run(compute,
               RmsNormBackward{.dy = s.n2,
                               .x = x,
                               .weight = w.attention_norm,
                               .rstd = s.rstd1,
                               .d_residual = s.d_mid,
                               .dx = d,
                               .d_weight = dw.attention_norm,
                               .workspace = s.norm_partials},
               tag);
}

/// Norm, logits and loss of the chunk of tokens from `begin` on. With a `grad_scale` the logits
/// become their gradient.
Llama::HeadChunk Llama::head_chunk(Stream& compute, const HeadViews& w, const CellBatch& batch,
                                   std::int64_t begin, ConstTensorView grad_scale,
                                   ConstTensorView x, TensorView loss, const Tag& tag) {
  const Scratch& s = *scratch_;
  const std::int64_t count = std::min(sizes_.head_chunk, sizes_.cell_tokens - begin);
  const HeadChunk chunk{
      .begin = begin,
      .count = count,
      .x = x.slice_rows(begin, count),
      .n = s.head_n.slice_rows(0, count),
      .rstd = s.head_rstd.slice_rows(0, count),
      .logits = TensorView(s.head_logits.data, sizes_.compute, Shape{count, config_.vocab_size},
                           logits_stride(config_))};
  kernels_.run(compute,
               RmsNormForward{.x = chunk.x,
                              .residual = {},
                              .weight = w.norm,
                              .sum = {},
                              .y = chunk.n,
                              .rstd = chunk.rstd,
                              .eps = config_.rms_norm_eps},
               tag);
  kernels_.run(compute, Matmul{.a = chunk.n, .b = w.projection, .out = chunk.logits}, tag);
  kernels_.run(compute,
               CrossEntropy{.logits = chunk.logits,
                            .targets = batch.targets.slice_rows(begin, count),
                            .grad_scale = grad_scale,
                            .loss = loss.slice_rows(begin, count),
                            .lse = s.head_lse.slice_rows(0, count),
                            .d_logits = grad_scale ? chunk.logits : TensorView()},
               tag);
  return chunk;
}

void Llama::head_forward_backward(Stream& compute, std::span<std::byte* const> weights,
                                  std::span<std::byte* const> gradients, const CellBatch& batch,
                                  ConstTensorView grad_scale, ConstTensorView x, TensorView d,
                                  TensorView loss, const Tag& tag) {
  const HeadViews w = head_views(weights, sizes_.compute);
  const HeadViews dw = head_views(gradients, accumulator_of(sizes_.compute));
  for (std::int64_t begin = 0; begin < sizes_.cell_tokens; begin += sizes_.head_chunk) {
    const HeadChunk c = head_chunk(compute, w, batch, begin, grad_scale, x, loss, tag);
    const TensorView dn = scratch_->head_dn.slice_rows(0, c.count);
    kernels_.run(compute,
                 Matmul{.a = c.logits, .b = w.projection, .out = dn, .layout = MatmulLayout::kNN},
                 tag);
    kernels_.run(compute,
                 Matmul{.a = c.logits,
                        .b = c.n,
                        .out = dw.projection,
                        .layout = MatmulLayout::kTN,
                        .update = MatmulUpdate::kAccumulate},
                 tag);
    kernels_.run(compute,
                 RmsNormBackward{.dy = dn,
                                 .x = c.x,
                                 .weight = w.norm,
                                 .rstd = c.rstd,
                                 .d_residual = {},
                                 .dx = d.slice_rows(c.begin, c.count),
                                 .d_weight = dw.norm,
                                 .workspace = scratch_->norm_partials},
                 tag);
  }
}

void Llama::head_forward(Stream& compute, std::span<std::byte* const> weights,
                         const CellBatch& batch, ConstTensorView x, TensorView loss,
                         const Tag& tag) {
  const HeadViews w = head_views(weights, sizes_.compute);
  for (std::int64_t begin = 0; begin < sizes_.cell_tokens; begin += sizes_.head_chunk) {
    head_chunk(compute, w, batch, begin, {}, x, loss, tag);
  }
}

}  // namespace strata
