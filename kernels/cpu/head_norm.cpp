// This file computes RMSNorm of single heads on the CPU, forward and backward; CpuKernels calls
// both through operators.h. The formulas are those of strata/ops/head_norm.h, in A, rounded once. A
// rotation then reads what was rounded, and a position outside of its tables throws ShapeError. The
// weight's gradient adds tokens in ascending order, and of each its heads, to what is there, so
// splitting N over several calls gives the same bits.

#include <cmath>

#include "kernels/cpu/lane_sum.h"
#include "kernels/cpu/operators.h"
#include "kernels/cpu/rope_pairs.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

namespace {

/// Adds to d_weight[c] the sum over tokens and heads of dy * xhat, for columns [begin, end).
template <Compute X>
void accumulate_weight_gradient(const HeadNormBackward& op, std::int64_t begin, std::int64_t end) {
  using A = Accumulator<X>;
  const Rows<const X> dy(op.dy);
  const Rows<const X> x(op.x);
  const A* rstd = op.rstd.as<A>();
  A* d_weight = op.d_weight.as<A>();
  const std::int64_t heads = op.x.shape[1];
  const std::int64_t size = op.x.shape[2];
  for (std::int64_t n = 0; n < op.x.rows(); ++n) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const X* dy_head = dy[n] + h * size;
      const X* x_head = x[n] + h * size;
      const A scale = rstd[n * heads + h];
      for (std::int64_t c = begin; c < end; ++c) {
        d_weight[c] += static_cast<A>(dy_head[c]) * (static_cast<A>(x_head[c]) * scale);
      }
    }
  }
}

/// Writes dx of one head.
template <Compute X>
void differentiate_head(const X* dy, const X* x, const X* weight, Accumulator<X> offset,
                        Accumulator<X> rstd, std::int64_t size, X* dx) {
  using A = Accumulator<X>;
  const A projection = lane_sum<A>(size, [=](std::int64_t c) {
    const A g = (static_cast<A>(weight[c]) + offset) * static_cast<A>(dy[c]);
    return g * (static_cast<A>(x[c]) * rstd);
  });
  const A mean = projection / static_cast<A>(size);
  for (std::int64_t c = 0; c < size; ++c) {
    const A g = (static_cast<A>(weight[c]) + offset) * static_cast<A>(dy[c]);
    dx[c] = X(rstd * (g - static_cast<A>(x[c]) * rstd * mean));
  }
}

/// Writes y and rstd of the heads of token n.
template <Compute X>
void normalise_token(const HeadNormForward& op, std::int64_t n) {
  using A = Accumulator<X>;
  const X* weight = op.weight.as<X>();
  const A offset = static_cast<A>(op.offset);
  const std::int64_t heads = op.x.shape[1];
  const std::int64_t size = op.x.shape[2];
  for (std::int64_t h = 0; h < heads; ++h) {
    const X* from = Rows<const X>(op.x)[n] + h * size;
    X* to = Rows<X>(op.y)[n] + h * size;
    const A squares = lane_sum<A>(
        size, [=](std::int64_t c) { return static_cast<A>(from[c]) * static_cast<A>(from[c]); });
    const A mean = squares / static_cast<A>(size);
    const A scale = 1 / std::sqrt(mean + static_cast<A>(op.eps));
    if (op.rstd) op.rstd.as<A>()[n * heads + h] = scale;
    for (std::int64_t c = 0; c < size; ++c) {
      to[c] = X(static_cast<A>(from[c]) * scale * (static_cast<A>(weight[c]) + offset));
    }
  }
}

/// Turns the heads of token n of y.
template <Compute X>
void turn_token(const HeadNormForward& op, std::int64_t n) {
  using A = Accumulator<X>;
  const auto position = op.rotation.positions.as<std::int32_t>()[n];
  check_index(op.kName, "rotation.positions", n, position, op.rotation.cos.rows());
  const A* cosine = Rows<const A>(op.rotation.cos)[position];
  const A* sine = Rows<const A>(op.rotation.sin)[position];
  const std::int64_t size = op.y.shape[2];
  const RopePairPlaces halves{.count = size / 2, .step = 1, .to_second = size / 2};
  for (std::int64_t h = 0; h < op.y.shape[1]; ++h) {
    turn_pairs(halves, cosine, sine, A{1}, Rows<X>(op.y)[n] + h * size);
  }
}

}  // namespace

void execute(const Context& context, const HeadNormForward& op) {
  with_compute_type(op.x.dtype, [&]<Compute X>(X) {
    const std::int64_t work = 4 * op.x.shape[1] * op.x.shape[2];
    context.pool.parallel_for(op.x.rows(), grain_for(work),
                              [&](std::int64_t begin, std::int64_t end) {
                                for (std::int64_t n = begin; n < end; ++n) {
                                  normalise_token<X>(op, n);
                                  if (op.rotation) turn_token<X>(op, n);
                                }
                              });
  });
}

void execute(const Context& context, const HeadNormBackward& op) {
  with_compute_type(op.x.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const std::int64_t heads = op.x.shape[1];
    const std::int64_t size = op.x.shape[2];
    // The weight's gradient comes first, since dx may overwrite dy.
    constexpr std::int64_t kColumns = 64;
    const std::int64_t summed = op.d_weight ? size : 0;
    context.pool.parallel_for(summed, kColumns, [&](std::int64_t begin, std::int64_t end) {
      accumulate_weight_gradient<X>(op, begin, end);
    });
    const Rows<const X> dy(op.dy);
    const Rows<const X> x(op.x);
    const X* weight = op.weight.as<X>();
    const A offset = static_cast<A>(op.offset);
    const A* rstd = op.rstd.as<A>();
    const Rows<X> dx(op.dx);
    context.pool.parallel_for(op.x.rows(), grain_for(4 * heads * size),
                              [&](std::int64_t begin, std::int64_t end) {
                                for (std::int64_t n = begin; n < end; ++n) {
                                  for (std::int64_t h = 0; h < heads; ++h) {
                                    const std::int64_t at = h * size;
                                    differentiate_head<X>(dy[n] + at, x[n] + at, weight, offset,
                                                          rstd[n * heads + h], size, dx[n] + at);
                                  }
                                }
                              });
  });
}

}  // namespace strata::cpu
