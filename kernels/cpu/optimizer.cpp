// This file has the squared norm, with and without a cast, and AdamW on the CPU, over blocks of
// 4096 elements; CpuKernels calls them through operators.h, on the host lane for the optimizer. The
// bits are those of strata/ops/optimizer.h, on every instruction set and for any number of threads.
// The arithmetic of AdamW is in simd/adamw.h and simd/adamw_codes.h.

#include <atomic>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"
#include "strata/base/random.h"

namespace strata::cpu {

namespace {

constexpr std::int64_t kBlock = SquaredNorm::kBlock;

[[nodiscard]] std::int64_t blocks_of(std::int64_t elements) {
  return (elements + kBlock - 1) / kBlock;
}

/// Returns the sum of x^2 over one block, taken in index order.
template <class X>
double block_norm(const X* x, std::int64_t block, std::int64_t elements) {
  double sum = 0;
  const std::int64_t last = std::min((block + 1) * kBlock, elements);
  for (std::int64_t i = block * kBlock; i < last; ++i) {
    const double value = static_cast<double>(x[i]);
    sum += value * value;
  }
  return sum;
}

/// Computes every scalar in f64 and rounds it to A.
template <class A>
AdamWFactors<A> factors_of(const AdamWScalars& s, const AdamW& op) {
  const double lr = s.lr * op.lr_factor;
  return {.lr = static_cast<A>(lr),
          .beta1 = static_cast<A>(s.beta1),
          .one_minus_beta1 = static_cast<A>(1 - s.beta1),
          .beta2 = static_cast<A>(s.beta2),
          .one_minus_beta2 = static_cast<A>(1 - s.beta2),
          .eps = static_cast<A>(s.eps),
          .correction1 = static_cast<A>(s.correction1),
          .correction2 = static_cast<A>(s.correction2),
          .grad_factor = static_cast<A>(s.grad_factor),
          .lr_decay = static_cast<A>(lr * op.weight_decay)};
}

}  // namespace

void execute(const Context& context, const SquaredNorm& op) {
  with_compute_type(op.x.dtype, [&]<Compute X>(X) {
    const X* x = op.x.as<X>();
    double* partial = op.partial.as<double>();
    const std::int64_t elements = op.x.elements();
    context.pool.parallel_for(blocks_of(elements), 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        partial[block] = block_norm(x, block, elements);
      }
    });
  });
}

void execute(const Context& context, const CastSquaredNorm& op) {
  with_compute_type(op.x.dtype, [&]<Compute From>(From) {
    with_compute_type(op.y.dtype, [&]<Compute To>(To) {
      const auto* x = op.x.as<From>();
      auto* y = op.y.as<To>();
      double* partial = op.partial.as<double>();
      const std::int64_t elements = op.x.elements();
      context.pool.parallel_for(blocks_of(elements), 4, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t last = std::min(end * kBlock, elements);
        for (std::int64_t i = begin * kBlock; i < last; ++i) y[i] = rounded<To>(x[i]);
        for (std::int64_t block = begin; block < end; ++block) {
          partial[block] = block_norm(y, block, elements);
        }
      });
    });
  });
}

void execute(const Context& context, const AdamW& op) {
  const AdamWScalars scalars = *op.scalars;
  if (scalars.apply == 0) return;
  const std::int64_t elements = op.weight.elements();
  std::atomic<bool> finite{true};
  // Every block of moments that are rounded has a key of its own; blocks are counted in the run
  // that the elements are a part of.
  const bool draws = op.m.dtype == DType::kBF16 || op.m.dtype == kMomentCode;
  const std::int64_t skipped = draws ? op.rounding_begin % kBlock : 0;
  const std::int64_t blocks = blocks_of(skipped + elements);
  const std::int64_t blocks_at_once = draws ? 1 : blocks;
  const auto update = [&](std::int64_t begin, std::int64_t end) {
    const auto block = static_cast<std::uint64_t>(op.rounding_begin / kBlock + begin);
    const AdamWRange range{
        .weight_dtype = op.weight.dtype,
        .grad_dtype = op.grad.dtype,
        .moment_dtype = op.m.dtype,
        .weight = op.weight.data,
        .low = static_cast<std::int16_t*>(op.low.data),
        .m = op.m.data,
        .v = op.v.data,
        .scale = static_cast<std::uint8_t*>(op.scale.data),
        .grad = op.grad.data,
        .begin = std::max<std::int64_t>(begin * kBlock - skipped, 0),
        .end = std::min(end * kBlock - skipped, elements),
        .rounding_key = random_bits(scalars.rounding_seed, op.rounding_stream, block),
        .rounding_begin = begin == 0 ? skipped : 0,
        .f64 = factors_of<double>(scalars, op),
        .f32 = factors_of<float>(scalars, op)};
    if (!context.simd.adamw(range)) finite.store(false, std::memory_order_relaxed);
  };
  context.pool.parallel_for(blocks, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; block += blocks_at_once) {
      update(block, std::min(block + blocks_at_once, end));
    }
  });
  if (!finite) *op.nonfinite.as<std::int32_t>() = 1;
}

}  // namespace strata::cpu
