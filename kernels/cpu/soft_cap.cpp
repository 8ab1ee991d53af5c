// This file caps values smoothly on the CPU, forward and backward; CpuKernels calls both through
// operators.h. The formulas are those of strata/ops/soft_cap.h, in A, rounded once.

#include <cmath>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

void execute(const Context& context, const SoftCapForward& op) {
  with_compute_type(op.x.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const Rows<const X> x(op.x);
    const Rows<X> y(op.y);
    const A cap = static_cast<A>(op.cap);
    const std::int64_t width = op.x.shape[1];
    constexpr std::int64_t kWork = 16;  // elementary operations of a hyperbolic tangent
    context.pool.parallel_for(op.x.rows(), grain_for(kWork * width),
                              [&](std::int64_t begin, std::int64_t end) {
                                for (std::int64_t n = begin; n < end; ++n) {
                                  for (std::int64_t c = 0; c < width; ++c) {
                                    y[n][c] = X(cap * std::tanh(static_cast<A>(x[n][c]) / cap));
                                  }
                                }
                              });
  });
}

void execute(const Context& context, const SoftCapBackward& op) {
  with_compute_type(op.dy.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const Rows<const X> dy(op.dy);
    const Rows<const X> y(op.y);
    const Rows<X> dx(op.dx);
    const A cap = static_cast<A>(op.cap);
    const std::int64_t width = op.dy.shape[1];
    context.pool.parallel_for(op.dy.rows(), grain_for(4 * width),
                              [&](std::int64_t begin, std::int64_t end) {
                                for (std::int64_t n = begin; n < end; ++n) {
                                  for (std::int64_t c = 0; c < width; ++c) {
                                    const A share = static_cast<A>(y[n][c]) / cap;
                                    dx[n][c] = X(static_cast<A>(dy[n][c]) * (1 - share * share));
                                  }
                                }
                              });
  });
}

}  // namespace strata::cpu
