// This file computes SwiGLU on the CPU: y = silu(gate) * up with gate and up side by side, also
// with GELU in place of SiLU; the backward builds y again. CpuKernels calls both through
// operators.h. Everything is computed in A and each output rounded once; outputs of the backward
// may be its inputs.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/cpu/fp8_rows.h"
#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

namespace {

constexpr std::int64_t kExpWork = 4;  // elementary operations that an element takes, about

// GELU by its tanh is x * sigmoid(slope * (x + cubic * x^3)).
constexpr double kTanhSlope = 2 * 0.79788456080286535588;  // 2 sqrt(2 / pi)
constexpr double kTanhCubic = 0.044715;

/// Computes s with activation(gate) = gate * s for a chunk of a row.
template <Activation kActivation, Compute X, class A = Accumulator<X>>
void openings(const SimdKernels& simd, const X* gates, std::int64_t count, A* s) {
  if constexpr (kActivation == Activation::kGelu) {
    for (std::int64_t i = 0; i < count; ++i) {
      s[i] = std::erfc(static_cast<A>(gates[i]) * -(std::numbers::sqrt2_v<A> / 2)) / 2;
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const A gate = static_cast<A>(gates[i]);
    if constexpr (kActivation == Activation::kSilu) {
      s[i] = -gate;
    } else {
      s[i] = -static_cast<A>(kTanhSlope) * gate * (1 + static_cast<A>(kTanhCubic) * gate * gate);
    }
  }
  exponentials(simd, s, count);
  for (std::int64_t i = 0; i < count; ++i) s[i] = 1 / (1 + s[i]);
}

/// Returns the gradient of a gate, where `d` is that of what it opened to, and s is of openings().
template <Activation kActivation, class A>
A gate_gradient(A d, A gate, A s) {
  if constexpr (kActivation == Activation::kSilu) {
    return d * s * (1 + gate * (1 - s));
  } else if constexpr (kActivation == Activation::kGeluTanh) {
    const A slope = static_cast<A>(kTanhSlope) * (1 + 3 * static_cast<A>(kTanhCubic) * gate * gate);
    return d * s * (1 + gate * (1 - s) * slope);
  } else {
    const A density =
        std::exp(gate * gate / -2) * std::numbers::inv_sqrtpi_v<A> / std::numbers::sqrt2_v<A>;
    return d * (s + gate * density);
  }
}

/// Calls run<activation>() for the activation of an operator.
template <class Run>
void with_activation(Activation activation, const Run& run) {
  switch (activation) {
    case Activation::kSilu: return run.template operator()<Activation::kSilu>();
    case Activation::kGeluTanh: return run.template operator()<Activation::kGeluTanh>();
    case Activation::kGelu: return run.template operator()<Activation::kGelu>();
  }
}

/// Computes y = gate * s * up for a chunk of a row.
template <Activation kActivation, Compute X, class A = Accumulator<X>>
void forward(const SimdKernels& simd, const X* gates, const X* ups, std::int64_t count, X* y) {
  A s[kExpChunk];
  openings<kActivation>(simd, gates, count, s);
  for (std::int64_t i = 0; i < count; ++i) {
    y[i] = X(static_cast<A>(gates[i]) * s[i] * static_cast<A>(ups[i]));
  }
}

/// Computes a row of y in e4m3, and returns its scale: each chunk is computed twice, so that no row
/// is kept.
template <Activation kActivation, Compute X>
float forward_in_fp8(const SimdKernels& simd, const X* gates, const X* ups, std::int64_t width,
                     E4M3* y8) {
  X y[kExpChunk];
  const auto for_each_element = [&](const auto& visit) {
    for (std::int64_t f = 0; f < width; f += kExpChunk) {
      const std::int64_t count = std::min(kExpChunk, width - f);
      forward<kActivation>(simd, gates + f, ups + f, count, y);
      for (std::int64_t i = 0; i < count; ++i) visit(f + i, y[i]);
    }
  };
  std::uint32_t largest = 0;
  for_each_element([&](std::int64_t, X x) { largest = std::max(largest, magnitude_bits(x)); });
  const float scale = fp8_scale(largest);
  for_each_element([&](std::int64_t f, X x) { y8[f] = fp8_code(x, scale); });
  return scale;
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

template <Activation kActivation, Compute X, class A = Accumulator<X>>
void backward(const SimdKernels& simd, const BackwardChunk<X>& c, std::int64_t count) {
  A opening[kExpChunk];
  openings<kActivation>(simd, c.gates, count, opening);
  for (std::int64_t i = 0; i < count; ++i) {
    const A d = static_cast<A>(c.d_y[i]);
    const A gate = static_cast<A>(c.gates[i]);
    const A up = static_cast<A>(c.ups[i]);
    const A s = opening[i];
    c.d_gates[i] = X(gate_gradient<kActivation>(d * up, gate, s));
    c.d_ups[i] = X(d * gate * s);
    c.y[i] = X(gate * s * up);
  }
}

/// Calls run(n, f, count) for each chunk of each row, which has `width` elements: that of row n
/// from f on.
template <class Run>
void for_each_chunk(const Context& context, std::int64_t rows, std::int64_t width, const Run& run) {
  context.pool.parallel_for(rows, grain_for(width * kExpWork),
                            [&](std::int64_t begin, std::int64_t end) {
                              for (std::int64_t n = begin; n < end; ++n) {
                                for (std::int64_t f = 0; f < width; f += kExpChunk) {
                                  run(n, f, std::min(kExpChunk, width - f));
                                }
                              }
                            });
}

}  // namespace

void execute(const Context& context, const SwigluForward& op) {
  with_activation(op.activation, [&]<Activation kActivation>() {
    with_compute_type(op.gate_up.dtype, [&]<Compute X>(X) {
      const Rows<const X> gate_up(op.gate_up);
      const std::int64_t rows = op.gate_up.rows();
      const std::int64_t width = op.gate_up.shape[1] / 2;
      if (op.y8) {
        const Rows<E4M3> y8(op.y8);
        auto* scales = op.y_scale.as<float>();
        context.pool.parallel_for(
            rows, grain_for(2 * width * kExpWork), [&](std::int64_t begin, std::int64_t end) {
              for (std::int64_t n = begin; n < end; ++n) {
                const X* gates = gate_up[n];
                scales[n] =
                    forward_in_fp8<kActivation>(context.simd, gates, gates + width, width, y8[n]);
              }
            });
      }
      if (!op.y) return;
      const Rows<X> y(op.y);
      const auto run = [&](std::int64_t n, std::int64_t f, std::int64_t count) {
        const X* gates = gate_up[n] + f;
        forward<kActivation>(context.simd, gates, gates + width, count, y[n] + f);
      };
      for_each_chunk(context, rows, width, run);
    });
  });
}

void execute(const Context& context, const SwigluBackward& op) {
  with_activation(op.activation, [&]<Activation kActivation>() {
    with_compute_type(op.y.dtype, [&]<Compute X>(X) {
      const Rows<const X> d_y(op.d_y);
      const Rows<const X> gate_up(op.gate_up);
      const Rows<X> d_gate_up(op.d_gate_up);
      const Rows<X> y(op.y);
      const std::int64_t width = op.y.shape[1];
      const auto run = [&](std::int64_t n, std::int64_t f, std::int64_t count) {
        const BackwardChunk<X> chunk{.d_y = d_y[n] + f,
                                     .gates = gate_up[n] + f,
                                     .ups = gate_up[n] + width + f,
                                     .d_gates = d_gate_up[n] + f,
                                     .d_ups = d_gate_up[n] + width + f,
                                     .y = y[n] + f};
        backward<kActivation>(context.simd, chunk, count);
      };
      for_each_chunk(context, op.y.rows(), width, run);
    });
  });
  if (op.d_gate_up8) {
    execute(context,
            QuantizeFp8Rows{.x = op.d_gate_up, .q = op.d_gate_up8, .scale = op.d_gate_up_scale});
  }
}

}  // namespace strata::cpu
