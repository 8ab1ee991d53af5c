// This file has inverted dropout on the CPU; CpuKernels calls it through operators.h. Each result
// is one fma in A, rounded once, so this kernel defines the bits that the CUDA one is compared
// with.

#include <cmath>
#include <cstdint>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"
#include "strata/base/random.h"

namespace strata::cpu {

namespace {

std::uint32_t mix32(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  return x ^ (x >> 16);
}

}  // namespace

void execute(const Context& context, const Dropout& op) {
  with_compute_type(op.y.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const Rows<const X> x(op.x);
    const bool adds = static_cast<bool>(op.added);
    const Rows<const X> added(adds ? op.added : op.x);  // which is not read without it
    const Rows<X> y(op.y);
    const A scale = static_cast<A>(1 / (1 - op.mask.rate));
    const std::uint32_t threshold = op.threshold();
    const std::int64_t width = op.y.shape[1];
    constexpr std::int64_t kWork = 12;  // elementary operations of an element
    context.pool.parallel_for(
        op.y.rows(), grain_for(kWork * width), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t n = begin; n < end; ++n) {
            const std::uint64_t key = random_bits(op.mask.seed, op.mask.stream,
                                                  static_cast<std::uint64_t>(op.mask.first + n));
            const auto low = static_cast<std::uint32_t>(key);
            const auto high = static_cast<std::uint32_t>(key >> 32);
            for (std::int64_t c = 0; c < width; ++c) {
              const std::uint32_t place = static_cast<std::uint32_t>(c) * 0x9e3779b9u;
              const bool kept = (mix32(low + place) ^ high) >= threshold;
              const A rest = adds ? static_cast<A>(added[n][c]) : A{0};
              y[n][c] = X(kept ? std::fma(static_cast<A>(x[n][c]), scale, rest) : rest);
            }
          }
        });
  });
}

}  // namespace strata::cpu
