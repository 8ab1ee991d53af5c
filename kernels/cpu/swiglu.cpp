// This file computes SwiGLU on the CPU: y = silu(gate) * up with gate and up side by side; the
// backward builds y again. CpuKernels calls both through operators.h. Everything is computed in A
// and each output rounded once; outputs of the backward may be its inputs.

#include <algorithm>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

namespace {

constexpr std::int64_t kExpWork = 4;  // elementary operations that an element takes, about

/// Computes s = sigmoid(gate) for a chunk of a row.
template <Compute X, class A = Accumulator<X>>
void sigmoids(const SimdKernels& simd, const X* gates, std::int64_t count, A* s) {
  for (std::int64_t i = 0; i < count; ++i) s[i] = -static_cast<A>(gates[i]);
  exponentials(simd, s, count);
  for (std::int64_t i = 0; i < count; ++i) s[i] = 1 / (1 + s[i]);
}

/// Computes y = gate * s * up for a chunk of a row.
template <Compute X, class A = Accumulator<X>>
void forward(const SimdKernels& simd, const X* gates, const X* ups, std::int64_t count, X* y) {
  A s[kExpChunk];
  sigmoids(simd, gates, count, s);
  for (std::int64_t i = 0; i < count; ++i) {
    y[i] = X(static_cast<A>(gates[i]) * s[i] * static_cast<A>(ups[i]));
  }
}

/// What the backward reads and writes of one chunk of a row; outputs may be the inputs.
template <Compute X>
struct BackwardChunk {
  const X* d_y;
  const X* gates;
  const X* ups;
  X* d_gates;
  X* d_ups;
  X* y;
};

template <Compute X, class A = Accumulator<X>>
void backward(const SimdKernels& simd, const BackwardChunk<X>& c, std::int64_t count) {
  A sigmoid[kExpChunk];
  sigmoids(simd, c.gates, count, sigmoid);
  for (std::int64_t i = 0; i < count; ++i) {
    const A d = static_cast<A>(c.d_y[i]);
    const A gate = static_cast<A>(c.gates[i]);
    const A up = static_cast<A>(c.ups[i]);
    const A s = sigmoid[i];
    c.d_gates[i] = X(d * up * s * (1 + gate * (1 - s)));
    c.d_ups[i] = X(d * gate * s);
    c.y[i] = X(gate * s * up);
  }
}

}  // namespace

void execute(const Context& context, const SwigluForward& op) {
  with_compute_type(op.y.dtype, [&]<Compute X>(X) {
    const Rows<const X> gate_up(op.gate_up);
    const Rows<X> y(op.y);
    const std::int64_t width = op.y.shape[1];
    context.pool.parallel_for(
        op.y.rows(), grain_for(width * kExpWork), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t n = begin; n < end; ++n) {
            for (std::int64_t f = 0; f < width; f += kExpChunk) {
              const X* gates = gate_up[n] + f;
              forward(context.simd, gates, gates + width, std::min(kExpChunk, width - f), y[n] + f);
            }
          }
        });
  });
}

void execute(const Context& context, const SwigluBackward& op) {
  with_compute_type(op.y.dtype, [&]<Compute X>(X) {
    const Rows<const X> d_y(op.d_y);
    const Rows<const X> gate_up(op.gate_up);
    const Rows<X> d_gate_up(op.d_gate_up);
    const Rows<X> y(op.y);
    const std::int64_t width = op.y.shape[1];
    context.pool.parallel_for(op.y.rows(), grain_for(width * kExpWork),
                              [&](std::int64_t begin, std::int64_t end) {
                                for (std::int64_t n = begin; n < end; ++n) {
                                  for (std::int64_t f = 0; f < width; f += kExpChunk) {
                                    const BackwardChunk<X> chunk{.d_y = d_y[n] + f,
                                                                 .gates = gate_up[n] + f,
                                                                 .ups = gate_up[n] + width + f,
                                                                 .d_gates = d_gate_up[n] + f,
                                                                 .d_ups = d_gate_up[n] + width + f,
                                                                 .y = y[n] + f};
                                    backward(context.simd, chunk, std::min(kExpChunk, width - f));
                                  }
                                }
                              });
  });
}

}  // namespace strata::cpu
