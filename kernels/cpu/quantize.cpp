// This file rounds rows to int8 with a scale each, and back, on the CPU; CpuKernels calls both
// through operators.h. The bits are the definition of strata/ops/quantize.h: a row of zeros gets
// levels of 0, and a row with an infinity or a NaN the scale NaN, so that it comes back as NaN.

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

namespace {

/// Returns the scale of a row, see QuantizeRows. The bits of magnitudes are in the order of the
/// numbers, with infinity and then NaNs above them.
template <class X>
float scale_of(const X* x, std::int64_t width) {
  constexpr std::uint32_t kInfinity = 0x7f800000u;
  std::uint32_t largest = 0;
  for (std::int64_t c = 0; c < width; ++c) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x[c])) & 0x7fffffffu;
    largest = std::max(largest, bits);
  }
  if (largest >= kInfinity) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(largest) / static_cast<float>(QuantizeRows::kLevels);
}

template <class A>
std::int8_t quantized(A x, A scale) {
  constexpr auto kMost = static_cast<A>(QuantizeRows::kLevels);
  return static_cast<std::int8_t>(std::clamp(std::nearbyint(x / scale), -kMost, kMost));
}

}  // namespace

void execute(const Context& context, const QuantizeRows& op) {
  with_compute_type(op.x.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const Rows<const X> x(op.x);
    const Rows<std::int8_t> q(op.q);
    auto* scales = op.scale.as<float>();
    const std::int64_t width = op.x.shape[1];
    context.pool.parallel_for(
        op.x.rows(), grain_for(4 * width), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t n = begin; n < end; ++n) {
            const float scale = scale_of(x[n], width);
            scales[n] = scale;
            const bool zeros = !(scale > 0);
            for (std::int64_t c = 0; c < width; ++c) {
              q[n][c] = zeros ? std::int8_t{0} : quantized<A>(static_cast<A>(x[n][c]), A{scale});
            }
          }
        });
  });
}

void execute(const Context& context, const DequantizeRows& op) {
  with_compute_type(op.x.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const Rows<const std::int8_t> q(op.q);
    const auto* scales = op.scale.as<float>();
    const Rows<X> x(op.x);
    const std::int64_t width = op.x.shape[1];
    context.pool.parallel_for(op.x.rows(), grain_for(width),
                              [&](std::int64_t begin, std::int64_t end) {
                                for (std::int64_t n = begin; n < end; ++n) {
                                  const A scale{scales[n]};
                                  for (std::int64_t c = 0; c < width; ++c) {
                                    x[n][c] = X(static_cast<A>(q[n][c]) * scale);
                                  }
                                }
                              });
  });
}

}  // namespace strata::cpu
