// This file computes RMSNorm, forward and backward, on the CPU; CpuKernels calls both through
// operators.h. Forward: y = s * rstd * (weight + offset) with rstd = 1 / sqrt(mean(s^2) + eps) and
// s = x (+ residual), rounded to X where it is written. Backward follows strata/ops/norm.h; the
// weight gradient adds rows in ascending order to what is there, so splitting N over several calls
// gives the same bits.

#include <cmath>

#include "kernels/cpu/fp8_rows.h"
#include "kernels/cpu/lane_sum.h"
#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

namespace {

/// Computes s = x + residual, rounded to X.
template <Compute X>
void add_residual(const X* x, const X* residual, std::int64_t width, X* sum) {
  using A = Accumulator<X>;
  for (std::int64_t c = 0; c < width; ++c) {
    sum[c] = X(static_cast<A>(x[c]) + static_cast<A>(residual[c]));
  }
}

/// Adds to d_weight[c] the sum over n of dy * xhat, for columns [begin, end).
template <Compute X>
void accumulate_weight_gradient(const RmsNormBackward& op, std::int64_t begin, std::int64_t end) {
  using A = Accumulator<X>;
  const Rows<const X> dy(op.dy);
  const Rows<const X> x(op.x);
  const A* rstd = op.rstd.as<A>();
  A* d_weight = op.d_weight.as<A>();
  for (std::int64_t n = 0; n < op.x.rows(); ++n) {
    const X* dy_row = dy[n];
    const X* x_row = x[n];
    for (std::int64_t c = begin; c < end; ++c) {
      d_weight[c] += static_cast<A>(dy_row[c]) * (static_cast<A>(x_row[c]) * rstd[n]);
    }
  }
}

}  // namespace

void execute(const Context& context, const RmsNormForward& op) {
  with_compute_type(op.x.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const Rows<const X> x(op.x);
    const X* weight = op.weight.as<X>();
    A* rstd = op.rstd.as<A>();
    const A offset = static_cast<A>(op.offset);
    const std::int64_t width = op.x.shape[1];
    context.pool.parallel_for(
        op.x.rows(), grain_for(4 * width), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t n = begin; n < end; ++n) {
            const X* row = x[n];
            if (op.residual) {
              X* sum = Rows<X>(op.sum)[n];
              add_residual(row, Rows<const X>(op.residual)[n], width, sum);
              row = sum;
            }
            const A squares = lane_sum<A>(width, [=](std::int64_t c) {
              return static_cast<A>(row[c]) * static_cast<A>(row[c]);
            });
            const A mean = squares / static_cast<A>(width);
            const A scale = 1 / std::sqrt(mean + static_cast<A>(op.eps));
            rstd[n] = scale;
            const auto normalised = [=](std::int64_t c) {
              return X(static_cast<A>(row[c]) * scale * (static_cast<A>(weight[c]) + offset));
            };
            // The codes come first, since y may overwrite the row.
            if (op.y8) {
              op.y_scale.as<float>()[n] = quantize_fp8_row(width, normalised, Rows<E4M3>(op.y8)[n]);
            }
            if (!op.y) continue;
            X* const y = Rows<X>(op.y)[n];
            for (std::int64_t c = 0; c < width; ++c) y[c] = normalised(c);
          }
        });
  });
}

void execute(const Context& context, const RmsNormBackward& op) {
  with_compute_type(op.x.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const std::int64_t rows = op.x.rows();
    const std::int64_t width = op.x.shape[1];
    // The weight's gradient comes first, since dx may overwrite dy.
    constexpr std::int64_t kColumns = 64;
    const std::int64_t summed = op.d_weight ? width : 0;
    context.pool.parallel_for(summed, kColumns, [&](std::int64_t begin, std::int64_t end) {
      accumulate_weight_gradient<X>(op, begin, end);
    });
    const Rows<const X> dy(op.dy);
    const Rows<const X> x(op.x);
    const X* weight = op.weight.as<X>();
    const A* rstd = op.rstd.as<A>();
    const Rows<X> dx(op.dx);
    const A offset = static_cast<A>(op.offset);
    context.pool.parallel_for(
        rows, grain_for(4 * width), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t n = begin; n < end; ++n) {
            const X* dy_row = dy[n];
            const X* x_row = x[n];
            const X* d_residual = op.d_residual ? Rows<const X>(op.d_residual)[n] : nullptr;
            const A scale = rstd[n];
            const A projection = lane_sum<A>(width, [=](std::int64_t c) {
              const A g = (static_cast<A>(weight[c]) + offset) * static_cast<A>(dy_row[c]);
              return g * (static_cast<A>(x_row[c]) * scale);
            });
            const A mean = projection / static_cast<A>(width);
            for (std::int64_t c = 0; c < width; ++c) {
              const A g = (static_cast<A>(weight[c]) + offset) * static_cast<A>(dy_row[c]);
              const A d = scale * (g - static_cast<A>(x_row[c]) * scale * mean);
              dx[n][c] = X(d_residual == nullptr ? d : static_cast<A>(d_residual[c]) + d);
            }
          }
        });
  });
  if (op.dx8) {
    execute(context, QuantizeFp8Rows{.x = op.dx, .q = op.dx8, .scale = op.dx_scale});
  }
}

}  // namespace strata::cpu
