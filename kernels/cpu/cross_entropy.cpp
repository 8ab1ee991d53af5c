// This file computes cross-entropy, fused with its gradient, on the CPU; CpuKernels calls it
// through operators.h. Row by row it computes lse = max + log(sum exp(logit - max)), in A, and
// rounds the gradient once; the gradient may overwrite the logits. A target that is neither a token
// nor kIgnoreIndex throws ShapeError.
//
// A gradient that is rounded to less than A is made of exp(logit - lse). One that keeps all of A
// would show how lse and the difference were rounded: it is exp(logit - max) / sum, where the
// rounding of the difference is put right.

#include <algorithm>
#include <cmath>

#include "kernels/cpu/lane_sum.h"
#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

namespace {

/// Computes e = exp(logits - shift) for a chunk of a row.
template <Compute X, class A = Accumulator<X>>
void shifted_exp(const SimdKernels& simd, const X* logits, A shift, std::int64_t count, A* e) {
  for (std::int64_t v = 0; v < count; ++v) e[v] = static_cast<A>(logits[v]) - shift;
  exponentials(simd, e, count);
}

/// Corrects e = exp(x - top), whose differences were rounded. The remainder is exact (Knuth's sum
/// of two numbers), and small: exp of it is 1 more.
template <class A>
void add_remainders(const A* x, A top, std::int64_t count, A* e) {
  for (std::int64_t v = 0; v < count; ++v) {
    const A rounded = x[v] - top;
    const A subtracted = rounded - x[v];
    const A remainder = (x[v] - (rounded - subtracted)) - (top + subtracted);
    e[v] = e[v] > 0 ? e[v] + e[v] * remainder : e[v];  // that of -infinity is no number
  }
}

/// The sum of exp(logit - top) over a row whose largest logit is top.
template <class A>
struct RowSum {
  A top, sum;
  [[nodiscard]] A log_sum_exp() const { return top + std::log(sum); }
};

template <Compute X, class A = Accumulator<X>>
RowSum<A> row_sum(const SimdKernels& simd, const X* logits, std::int64_t width) {
  A top = static_cast<A>(logits[0]);
  for (std::int64_t v = 1; v < width; ++v) top = std::max(top, static_cast<A>(logits[v]));
  A sum = 0;
  for (std::int64_t begin = 0; begin < width; begin += kExpChunk) {
    const std::int64_t count = std::min(kExpChunk, width - begin);
    A e[kExpChunk];
    shifted_exp(simd, logits + begin, top, count, e);
    if constexpr (std::same_as<X, A>) add_remainders(logits + begin, top, count, e);
    sum += lane_sum<A>(count, [&e](std::int64_t v) { return e[v]; });
  }
  return {top, sum};
}

/// Computes the probabilities of a chunk of a row.
template <Compute X, class A = Accumulator<X>>
void probabilities(const SimdKernels& simd, const X* logits, const RowSum<A>& of_row,
                   std::int64_t count, A* p) {
  if constexpr (std::same_as<X, A>) {
    shifted_exp(simd, logits, of_row.top, count, p);
    add_remainders(logits, of_row.top, count, p);
    for (std::int64_t v = 0; v < count; ++v) p[v] /= of_row.sum;
  } else {
    shifted_exp(simd, logits, of_row.log_sum_exp(), count, p);
  }
}

/// Computes d_row = (softmax(row) - onehot(target)) * grad_scale; d_row may be row.
template <Compute X, class A = Accumulator<X>>
void gradient(const SimdKernels& simd, const X* row, const RowSum<A>& of_row, std::int64_t target,
              A grad_scale, std::int64_t width, X* d_row) {
  for (std::int64_t begin = 0; begin < width; begin += kExpChunk) {
    const std::int64_t count = std::min(kExpChunk, width - begin);
    A p[kExpChunk];
    probabilities(simd, row + begin, of_row, count, p);
    if (target >= begin && target < begin + count) p[target - begin] -= 1;
    for (std::int64_t v = 0; v < count; ++v) d_row[begin + v] = X(p[v] * grad_scale);
  }
}

}  // namespace

void execute(const Context& context, const CrossEntropy& op) {
  with_compute_type(op.logits.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const Rows<const X> logits(op.logits);
    const auto* targets = op.targets.as<std::int32_t>();
    A* loss = op.loss.as<A>();
    A* lse = op.lse.as<A>();
    const std::int64_t width = op.logits.shape[1];
    const A* grad_scale = op.d_logits ? op.grad_scale.as<A>() : nullptr;
    const std::int64_t scale_step = op.grad_scale.elements() > 1 ? 1 : 0;
    constexpr std::int64_t kWork = 8;  // elementary operations of a logit: two exponentials
    const std::int64_t grain = grain_for(kWork * width);
    context.pool.parallel_for(op.logits.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const X* row = logits[n];
        const std::int32_t target = targets[n];
        const bool ignored = target == CrossEntropy::kIgnoreIndex;
        if (!ignored) check_index(op.kName, "targets", n, target, width);
        const RowSum<A> of_row = row_sum(context.simd, row, width);
        lse[n] = of_row.log_sum_exp();
        loss[n] = ignored ? A{0} : lse[n] - static_cast<A>(row[target]);
        if (!op.d_logits) continue;
        X* d_row = Rows<X>(op.d_logits)[n];
        if (ignored) {
          std::fill_n(d_row, width, X{});
        } else {
          gradient(context.simd, row, of_row, target, grad_scale[n * scale_step], width, d_row);
        }
      }
    });
  });
}

}  // namespace strata::cpu
