#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "kernels/cpu/simd/simd.h"
#include "strata/base/dtype.h"
#include "strata/base/error.h"
#include "strata/base/tensor.h"

namespace strata::cpu {

/// A type that an operator computes in ("X").
template <class X>
concept Compute = std::same_as<X, double> || std::same_as<X, float> || std::same_as<X, Bf16>;

/// The type that X accumulates in ("A").
template <Compute X>
using Accumulator = std::conditional_t<std::same_as<X, double>, double, float>;

/// Calls f(X{}) with the type of a compute dtype; check() has refused all others.
template <class F>
void with_compute_type(DType dtype, F f) {
  switch (dtype) {
    case DType::kF64: return f(double{});
    case DType::kF32: return f(float{});
    default: return f(Bf16{});
  }
}

/// Rows of a tensor as typed pointers.
template <class T>
class Rows {
 public:
  template <class Void>
  explicit Rows(const BasicTensorView<Void>& view)
      : data_(view.template as<std::remove_const_t<T>>()), stride_(view.row_stride) {}
  [[nodiscard]] T* operator[](std::int64_t row) const { return data_ + row * stride_; }
  [[nodiscard]] std::int64_t stride() const { return stride_; }

 private:
  T* data_;
  std::int64_t stride_;
};

/// Rows per chunk of a parallel loop, for rows of about `work` elementary operations each.
[[nodiscard]] inline std::int64_t grain_for(std::int64_t work) {
  constexpr std::int64_t kChunkWork = 1 << 14;  // some microseconds: far above the cost of a chunk
  return std::max<std::int64_t>(1, kChunkWork / std::max<std::int64_t>(1, work));
}

/// Throws ShapeError unless 0 <= index < limit.
inline void check_index(std::string_view op, std::string_view tensor, std::int64_t position,
                        std::int64_t index, std::int64_t limit) {
  if (index >= 0 && index < limit) return;
  throw ShapeError(std::string(op) + ": " + std::string(tensor) + "[" + std::to_string(position) +
                   "] is " + std::to_string(index) + ", outside of [0, " + std::to_string(limit) +
                   ")");
}

/// x = exp(x) for `count` numbers.
inline void exponentials(const SimdKernels& simd, float* x, std::int64_t count) {
  simd.exp_f32(x, count);
}
inline void exponentials(const SimdKernels& simd, double* x, std::int64_t count) {
  simd.exp_f64(x, count);
}
/// Numbers that go through exponentials() at a time where whole rows are too long for the stack.
inline constexpr std::int64_t kExpChunk = 256;

}  // namespace strata::cpu
