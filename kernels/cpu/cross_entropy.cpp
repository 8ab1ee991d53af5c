// Cross-entropy, fused with its gradient: lse = max + log(sum exp(logit - max)), row by row.

#include <algorithm>
#include <cmath>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/simd/lanes.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

namespace {

template <Compute X, class A = Accumulator<X>>
A log_sum_exp(const X* logits, std::int64_t width) {
  A top = static_cast<A>(logits[0]);
  for (std::int64_t v = 1; v < width; ++v) top = std::max(top, static_cast<A>(logits[v]));
  const A sum =
      lane_sum<A>(width, [=](std::int64_t v) { return std::exp(static_cast<A>(logits[v]) - top); });
  return top + std::log(sum);
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
    const A grad_scale = op.d_logits ? op.grad_scale.as<A>()[0] : A{0};
    context.pool.parallel_for(op.logits.rows(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const X* row = logits[n];
        const std::int32_t target = targets[n];
        const bool ignored = target == CrossEntropy::kIgnoreIndex;
        if (!ignored) check_index(op.kName, "targets", n, target, width);
        lse[n] = log_sum_exp(row, width);
        loss[n] = ignored ? A{0} : lse[n] - static_cast<A>(row[target]);
        if (!op.d_logits) continue;
        X* d_row = Rows<X>(op.d_logits)[n];
        if (ignored) {
          std::fill_n(d_row, width, X{});
          continue;
        }
        for (std::int64_t v = 0; v < width; ++v) {
          const A p = std::exp(static_cast<A>(row[v]) - lse[n]);
          d_row[v] = X((v == target ? p - 1 : p) * grad_scale);
        }
      }
    });
  });
}

}  // namespace strata::cpu
