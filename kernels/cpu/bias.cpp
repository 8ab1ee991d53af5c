// This file adds biases on the CPU and sums their gradients; CpuKernels calls both through
// operators.h. y = x + bias in A, rounded once. The gradient adds rows in ascending order to what
// is there, so splitting N over several calls gives the same bits.

#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

void execute(const Context& context, const BiasAdd& op) {
  with_compute_type(op.y.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const Rows<const X> x(op.x);
    const X* bias = op.bias.as<X>();
    const Rows<X> y(op.y);
    const std::int64_t width = op.y.shape[1];
    context.pool.parallel_for(op.y.rows(), grain_for(width),
                              [&](std::int64_t begin, std::int64_t end) {
                                for (std::int64_t n = begin; n < end; ++n) {
                                  for (std::int64_t c = 0; c < width; ++c) {
                                    y[n][c] = X(static_cast<A>(x[n][c]) + static_cast<A>(bias[c]));
                                  }
                                }
                              });
  });
}

void execute(const Context& context, const BiasBackward& op) {
  with_compute_type(op.dy.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const Rows<const X> dy(op.dy);
    A* d_bias = op.d_bias.as<A>();
    constexpr std::int64_t kColumns = 64;
    context.pool.parallel_for(op.dy.shape[1], kColumns, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = 0; n < op.dy.rows(); ++n) {
        for (std::int64_t c = begin; c < end; ++c) d_bias[c] += static_cast<A>(dy[n][c]);
      }
    });
  });
}

}  // namespace strata::cpu
