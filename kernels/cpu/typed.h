// This file leads from the dtypes of views to types: X, the type that an operator computes in, A,
// the type that it accumulates in, and typed rows. All CPU operators include it. It also has what
// many of them do alike: rounding once, the size of a parallel chunk, checks of indices and
// exponentials.

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
#include "strata/base/round.h"
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

/// Returns x in another dtype, rounded once, to nearest even.
template <class To, class From>
[[nodiscard]] inline To rounded(From x) {
  return static_cast<To>(x);
}

template <>
[[nodiscard]] inline Bf16 rounded<Bf16, double>(double x) {
  return rounded_to_bf16(x);
}

/// The rows of a tensor as typed pointers; `stride` is in elements.
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

/// Returns how many rows make a chunk of a parallel loop if a row takes about `work` elementary
/// operations; at least 1.
[[nodiscard]] inline std::int64_t grain_for(std::int64_t work) {
  constexpr std::int64_t kChunkWork = 1 << 14;  // some microseconds, far above a chunk's cost
  return std::max<std::int64_t>(1, kChunkWork / std::max<std::int64_t>(1, work));
}

/// Products of matrices that are multiplied and added in the time of an elementary operation.
inline constexpr std::int64_t kProductsAtOnce = 8;

/// Throws ShapeError, naming operator and tensor, unless 0 <= index < limit.
inline void check_index(std::string_view op, std::string_view tensor, std::int64_t position,
                        std::int64_t index, std::int64_t limit) {
  if (index >= 0 && index < limit) return;
  throw ShapeError(std::string(op) + ": " + std::string(tensor) + "[" + std::to_string(position) +
                   "] is " + std::to_string(index) + ", outside of [0, " + std::to_string(limit) +
                   ")");
}

/// Replaces `count` numbers x by exp(x).
inline void exponentials(const SimdKernels& simd, float* x, std::int64_t count) {
  simd.exp_f32(x, count);
}
inline void exponentials(const SimdKernels& simd, double* x, std::int64_t count) {
  simd.exp_f64(x, count);
}
/// How many numbers go through exponentials() at a time where whole rows are too long for the
/// stack.
inline constexpr std::int64_t kExpChunk = 256;

}  // namespace strata::cpu
