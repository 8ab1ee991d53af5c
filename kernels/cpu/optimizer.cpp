// This file has the squared norm, with and without a cast, and updates on the CPU, over blocks of
// 4096 elements; CpuKernels calls them through operators.h, on the host lane for the optimizer. The
// bits are those of strata/ops/optimizer.h, on every instruction set and for any number of threads.
// The arithmetic of updates is in simd/adamw.h, simd/adamw_codes.h and simd/momentum.h.

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
template <class A, class Update>
AdamWFactors<A> factors_of(const AdamWScalars& s, const Update& op) {
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

/// Updates all parameters of an operator by `kernel`. `range` has the tensors that not every update
/// has.
template <class Update>
void update(const Context& context, const Update& op, AdamWRange range,
            bool (*kernel)(const AdamWRange&)) {
  const AdamWScalars scalars = *op.scalars;
  if (scalars.apply == 0) return;
  const std::int64_t elements = op.weight.elements();
  range.weight_dtype = op.weight.dtype;
  range.grad_dtype = op.grad.dtype;
  range.moment_dtype = op.m.dtype;
  range.weight = op.weight.data;
  range.low = static_cast<std::int16_t*>(op.low.data);
  range.m = op.m.data;
  range.grad = op.grad.data;
  range.f64 = factors_of<double>(scalars, op);
  range.f32 = factors_of<float>(scalars, op);
  std::atomic<bool> finite{true};
  // Every block of numbers that are rounded has a key of its own; blocks are counted in the run
  // that the elements are a part of.
  const bool rounds_weights = op.weight.dtype == DType::kBF16 && !op.low;
  const bool draws = op.m.dtype == DType::kBF16 || op.m.dtype == kMomentCode || rounds_weights;
  const std::int64_t skipped = draws ? op.rounding_begin % kBlock : 0;
  const std::int64_t blocks = blocks_of(skipped + elements);
  const std::int64_t blocks_at_once = draws ? 1 : blocks;
  const auto update_blocks = [&](std::int64_t begin, std::int64_t end) {
    const auto block = static_cast<std::uint64_t>(op.rounding_begin / kBlock + begin);
    AdamWRange part = range;
    part.begin = std::max<std::int64_t>(begin * kBlock - skipped, 0);
    part.end = std::min(end * kBlock - skipped, elements);
    part.rounding_key = random_bits(scalars.rounding_seed, op.rounding_stream, block);
    part.weight_key =
        random_bits(scalars.rounding_seed, op.rounding_stream ^ AdamW::kWeightStream, block);
    part.rounding_begin = begin == 0 ? skipped : 0;
    if (!kernel(part)) finite.store(false, std::memory_order_relaxed);
  };
  context.pool.parallel_for(blocks, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; block += blocks_at_once) {
      update_blocks(block, std::min(block + blocks_at_once, end));
    }
  });
  if (!finite) *op.nonfinite.template as<std::int32_t>() = 1;
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
  AdamWRange range;
  range.v = op.v.data;
  range.scale = static_cast<std::uint8_t*>(op.scale.data);
  update(context, op, range, context.simd.adamw);
}

void execute(const Context& context, const Momentum& op) {
  const SimdKernels& simd = context.simd;
  switch (op.formula) {
    case MomentumFormula::kLion: return update(context, op, AdamWRange{}, simd.lion);
    case MomentumFormula::kSgd: return update(context, op, AdamWRange{}, simd.sgd);
    case MomentumFormula::kNesterov: return update(context, op, AdamWRange{}, simd.nesterov);
  }
}

}  // namespace strata::cpu
