// SwiGLU: y = silu(gate) * up, gate and up side by side; backward builds y again.

#include <cmath>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

namespace {

constexpr std::int64_t kExpWork = 16;  // an exp costs about this many elementary operations

template <class A>
A sigmoid(A x) {
  return 1 / (1 + std::exp(-x));
}

}  // namespace

void execute(const Context& context, const SwigluForward& op) {
  with_compute_type(op.y.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const Rows<const X> gate_up(op.gate_up);
    const Rows<X> y(op.y);
    const std::int64_t width = op.y.shape[1];
    context.pool.parallel_for(
        op.y.rows(), grain_for(width * kExpWork), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t n = begin; n < end; ++n) {
            const X* gates = gate_up[n];
            const X* ups = gates + width;
            for (std::int64_t f = 0; f < width; ++f) {
              const A gate = static_cast<A>(gates[f]);
              y[n][f] = X(gate * sigmoid(gate) * static_cast<A>(ups[f]));
            }
          }
        });
  });
}

void execute(const Context& context, const SwigluBackward& op) {
  with_compute_type(op.y.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const Rows<const X> d_y(op.d_y);
    const Rows<const X> gate_up(op.gate_up);
    const Rows<X> d_gate_up(op.d_gate_up);
    const Rows<X> y(op.y);
    const std::int64_t width = op.y.shape[1];
    context.pool.parallel_for(
        op.y.rows(), grain_for(width * kExpWork), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t n = begin; n < end; ++n) {
            for (std::int64_t f = 0; f < width; ++f) {
              const A d = static_cast<A>(d_y[n][f]);
              const A gate = static_cast<A>(gate_up[n][f]);
              const A up = static_cast<A>(gate_up[n][width + f]);
              const A s = sigmoid(gate);
              d_gate_up[n][f] = X(d * up * s * (1 + gate * (1 - s)));
              d_gate_up[n][width + f] = X(d * gate * s);
              y[n][f] = X(gate * s * up);
            }
          }
        });
  });
}

}  // namespace strata::cpu
