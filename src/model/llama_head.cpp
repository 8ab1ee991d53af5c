// Lists the operators of the head. Logits are large, so a chunk of tokens at a time goes through
// norm, projection, loss and back; the whole of the logits never exists.

#include <algorithm>

#include "cell_runner.h"
#include "strata/model/llama.h"

namespace strata {

/// A chunk of tokens after the head's forward: what backward reads of it.
struct Llama::HeadChunk {
  std::int64_t begin = 0;  ///< first token
  std::int64_t count = 0;
  ConstTensorView x;    ///< [count, C] X
  TensorView n;         ///< [count, C] X, x normalised
  TensorView rstd;      ///< [count] A
  TensorView logits;    ///< [count, V] X, strided; capped, or overwritten by their gradient
  TensorView d_logits;  ///< as logits, of what the projection gives; there with a grad_scale
};

std::int64_t Llama::logits_stride(std::int64_t vocabulary) {
  // Rows start at multiples of 16 bytes, whatever the vocabulary.
  return (vocabulary + 7) / 8 * 8;
}

std::int64_t Llama::default_head_chunk(std::int64_t vocabulary, std::int64_t cell_tokens) {
  // Logits in bf16 stay near 128 MiB. Of a large vocabulary a chunk takes more, because each one
  // reads and writes the whole gradient of the head's weight: with fewer tokens that takes longer
  // than the arithmetic.
  constexpr std::int64_t kElements = std::int64_t{64} << 20;
  constexpr std::int64_t kFewest = 1024;
  const std::int64_t fitting = kElements / logits_stride(vocabulary) / 256 * 256;
  return std::min(cell_tokens, std::max(fitting, kFewest));
}

ConstTensorView Llama::last_logits() const {
  return TensorView(memory_.scratch.head_logits.data, sizes_.compute,
                    Shape{sizes_.head_chunk, spec_.vocabulary}, logits_stride(spec_.vocabulary));
}

/// Runs norm, logits and loss of the chunk of tokens that begins at `begin`, and with a
/// `grad_scale`, [1] or [N] A, the gradient of logits, in their place if nothing caps them.
Llama::HeadChunk Llama::head_chunk(const CellRunner& run, const HeadWeights& w,
                                   const CellBatch& batch, std::int64_t begin,
                                   ConstTensorView grad_scale, ConstTensorView x, TensorView loss) {
  const LlamaScratch& s = memory_.scratch;
  const std::int64_t count = std::min(sizes_.head_chunk, sizes_.cell_tokens - begin);
  const auto rows_of = [&](const TensorView& all) {
    return TensorView(all.data, sizes_.compute, Shape{count, spec_.vocabulary},
                      logits_stride(spec_.vocabulary));
  };
  const bool capped = spec_.logits_cap > 0;
  const HeadChunk chunk{
      .begin = begin,
      .count = count,
      .x = x.slice_rows(begin, count),
      .n = s.head_n.slice_rows(0, count),
      .rstd = s.head_rstd.slice_rows(0, count),
      .logits = rows_of(s.head_logits),
      .d_logits = !grad_scale ? TensorView() : rows_of(capped ? s.head_d_logits : s.head_logits)};
  run(RmsNormForward{.x = chunk.x,
                     .residual = {},
                     .weight = w.norm,
                     .sum = {},
                     .y = chunk.n,
                     .rstd = chunk.rstd,
                     .eps = spec_.norm_eps,
                     .offset = spec_.norm_offset});
  run.linear(chunk.n, w.projection, chunk.logits, spec_.logits_scale);
  if (capped) {
    run(SoftCapForward{.x = chunk.logits, .y = chunk.logits, .cap = spec_.logits_cap});
  }
  const bool scaled_each = grad_scale && grad_scale.elements() > 1;
  run(CrossEntropy{.logits = chunk.logits,
                   .targets = batch.targets.slice_rows(begin, count),
                   .grad_scale = scaled_each ? grad_scale.slice_rows(begin, count) : grad_scale,
                   .loss = loss.slice_rows(begin, count),
                   .lse = s.head_lse.slice_rows(0, count),
                   .d_logits = chunk.d_logits});
  if (capped && grad_scale) {
    run(SoftCapBackward{
        .dy = chunk.d_logits, .y = chunk.logits, .dx = chunk.d_logits, .cap = spec_.logits_cap});
  }
  return chunk;
}

/// Goes over the chunks of a cell forward and backward.
void Llama::head_sweep_back(const CellRunner& run, const HeadWeights& w, const HeadGradients& dw,
                            const CellBatch& batch, ConstTensorView grad_scale, ConstTensorView x,
                            TensorView d, TensorView loss) {
  for (std::int64_t begin = 0; begin < sizes_.cell_tokens; begin += sizes_.head_chunk) {
    const HeadChunk c = head_chunk(run, w, batch, begin, grad_scale, x, loss);
    const TensorView dn = memory_.scratch.head_dn.slice_rows(0, c.count);
    run.input_gradient(c.d_logits, w.projection, dn, spec_.logits_scale);
    if (dw.projection) run.weight_gradient(c.d_logits, c.n, dw.projection, spec_.logits_scale);
    run(RmsNormBackward{.dy = dn,
                        .x = c.x,
                        .weight = w.norm,
                        .rstd = c.rstd,
                        .d_residual = {},
                        .dx = d.slice_rows(c.begin, c.count),
                        .d_weight = dw.norm,
                        .workspace = memory_.scratch.norm_partials,
                        .offset = spec_.norm_offset});
  }
}

void Llama::head_forward_backward(Stream& compute, const HeadWeights& w, const HeadGradients& dw,
                                  const CellBatch& batch, ConstTensorView grad_scale,
                                  ConstTensorView x, TensorView d, TensorView loss,
                                  const Tag& tag) {
  head_sweep_back(CellRunner(kernels_, compute, tag), w, dw, batch, grad_scale, x, d, loss);
}

/// Makes figures of the losses of tokens and, with a `grad_scale`, the factors of their gradients.
void Llama::preference_loss(const CellRunner& run, const CellBatch& batch,
                            ConstTensorView grad_scale, const PairOutputs& pairs) const {
  const LlamaScratch& s = memory_.scratch;
  run(PreferenceLoss{.token_loss = s.head_token_loss,
                     .reference = pairs.reference,
                     .reference_logs = batch.reference_logs,
                     .targets = batch.targets,
                     .pairs = batch.pairs,
                     .grad_scale = grad_scale,
                     .figures = pairs.figures,
                     .token_scale = grad_scale ? s.head_token_scale : TensorView(),
                     .rule = sizes_.preference.value()});
}

void Llama::head_preference(Stream& compute, const HeadWeights& w, const HeadGradients& dw,
                            const CellBatch& batch, ConstTensorView grad_scale, ConstTensorView x,
                            TensorView d, const PairOutputs& pairs, const Tag& tag) {
  const LlamaScratch& s = memory_.scratch;
  const CellRunner run(kernels_, compute, tag);
  head_forward(compute, w, batch, x, s.head_token_loss, tag);
  preference_loss(run, batch, grad_scale, pairs);
  head_sweep_back(run, w, dw, batch, s.head_token_scale, x, d, s.head_token_loss);
}

void Llama::head_preference_forward(Stream& compute, const HeadWeights& w, const CellBatch& batch,
                                    ConstTensorView x, const PairOutputs& pairs, const Tag& tag) {
  head_forward(compute, w, batch, x, memory_.scratch.head_token_loss, tag);
  preference_loss(CellRunner(kernels_, compute, tag), batch, {}, pairs);
}

void Llama::head_forward(Stream& compute, const HeadWeights& w, const CellBatch& batch,
                         ConstTensorView x, TensorView loss, const Tag& tag) {
  const CellRunner run(kernels_, compute, tag);
  for (std::int64_t begin = 0; begin < sizes_.cell_tokens; begin += sizes_.head_chunk) {
    head_chunk(run, w, batch, begin, {}, x, loss);
  }
}

}  // namespace strata
