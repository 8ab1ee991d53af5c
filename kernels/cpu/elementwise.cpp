// This file has residual add, accumulate, cast and fill on the CPU; CpuKernels calls them through
// operators.h. Each result is computed in A and rounded once, to nearest even, so these kernels
// define the bits that the CUDA ones are compared with.

#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

namespace {

constexpr std::int64_t kGrain = 1 << 14;

}  // namespace

void execute(const Context& context, const ResidualAdd& op) {
  with_compute_type(op.y.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const Rows<const X> a(op.a);
    const Rows<const X> b(op.b);
    const Rows<X> y(op.y);
    const std::int64_t width = op.y.shape[1];
    context.pool.parallel_for(op.y.rows(), grain_for(width),
                              [&](std::int64_t begin, std::int64_t end) {
                                for (std::int64_t n = begin; n < end; ++n) {
                                  for (std::int64_t c = 0; c < width; ++c) {
                                    y[n][c] = X(static_cast<A>(a[n][c]) + static_cast<A>(b[n][c]));
                                  }
                                }
                              });
  });
}

void execute(const Context& context, const Accumulate& op) {
  with_compute_type(op.x.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const auto* x = static_cast<const A*>(op.x.data);
    auto* sum = op.sum.as<A>();
    context.pool.parallel_for(op.x.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) sum[i] += x[i];
    });
  });
}

void execute(const Context& context, const Cast& op) {
  if (op.x.dtype == DType::kI32) {
    const auto* x = op.x.as<std::int32_t>();
    std::copy_n(x, op.x.elements(), op.y.as<std::int32_t>());
    return;
  }
  with_compute_type(op.x.dtype, [&]<Compute From>(From) {
    with_compute_type(op.y.dtype, [&]<Compute To>(To) {
      const auto* x = op.x.as<From>();
      auto* y = op.y.as<To>();
      context.pool.parallel_for(op.x.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) y[i] = rounded<To>(x[i]);
      });
    });
  });
}

void execute(const Context& context, const Fill& op) {
  const auto fill = [&]<class T>(T value) {
    auto* x = op.x.as<T>();
    context.pool.parallel_for(op.x.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) x[i] = value;
    });
  };
  if (op.x.dtype == DType::kI32) return fill(static_cast<std::int32_t>(op.value));
  with_compute_type(op.x.dtype, [&]<Compute X>(X) { fill(rounded<X>(op.value)); });
}

}  // namespace strata::cpu
