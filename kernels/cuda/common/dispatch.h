// This file leads from the run-time dtype and layout of views to the template arguments of kernels:
// T, the element type, and W, the elements that a thread moves as one access of 16 bytes (or 1 if
// the layout does not allow that). The launches of all families include it. What CUDA does not run
// throws BackendError here.

#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "strata/base/error.h"
#include "strata/base/tensor.h"

namespace strata::cuda {

template <class T>
inline constexpr int kWide = 16 / static_cast<int>(sizeof(T));

/// Throws BackendError that names operator and dtype, and the backend that runs it.
[[noreturn]] inline void throw_unsupported(std::string_view name, DType dtype) {
  throw BackendError("operator " + std::string(name) +
                     ": the cuda backend runs bf16 and f32, not " + std::string(name_of(dtype)) +
                     "; use the cpu backend for it");
}

/// Calls `body.operator()<T>()` with the element type of bf16 or f32. Throws BackendError, naming
/// the operator, for other dtypes.
template <class Body>
void with_dtype(std::string_view name, DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kBF16: return body.template operator()<__nv_bfloat16>();
    case DType::kF32: return body.template operator()<float>();
    default: throw_unsupported(name, dtype);
  }
}

/// Calls `body.operator()<T, W>()` with W = kWide<T> if `wide`, else 1. Throws as with_dtype does.
template <class Body>
void with_dtype_and_width(std::string_view name, DType dtype, bool wide, const Body& body) {
  with_dtype(name, dtype, [&]<class T>() {
    if (wide) {
      body.template operator()<T, kWide<T>>();
    } else {
      body.template operator()<T, 1>();
    }
  });
}

/// Returns true if every view that is present, and of a matrix every row, begins at a multiple of
/// so many bytes.
[[nodiscard]] inline bool rows_aligned_to(int bytes, std::initializer_list<ConstTensorView> views) {
  const auto unit = static_cast<std::uintptr_t>(bytes);
  return std::ranges::all_of(views, [=](const ConstTensorView& view) {
    const auto address = reinterpret_cast<std::uintptr_t>(view.data);
    const auto row_bytes = static_cast<std::uintptr_t>(view.row_stride) * size_of(view.dtype);
    return address % unit == 0 &&
           (view.shape.rank() < 2 || view.rows() <= 1 || row_bytes % unit == 0);
  });
}

/// Returns true if a view begins at a multiple of 16 bytes, or is absent.
[[nodiscard]] inline bool begins_aligned(const TensorView& view) {
  return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0;
}

/// Returns true if all of these begin at multiples of 16 bytes.
[[nodiscard]] inline bool rows_aligned(std::initializer_list<ConstTensorView> views) {
  return rows_aligned_to(16, views);
}

/// Returns true if rows of `columns` elements of `dtype` can be moved 16 bytes at a time.
[[nodiscard]] inline bool is_wide(DType dtype, std::int64_t columns,
                                  std::initializer_list<ConstTensorView> views) {
  return columns * static_cast<std::int64_t>(size_of(dtype)) % 16 == 0 && rows_aligned(views);
}

template <class T>
[[nodiscard]] T* data(const TensorView& view) {
  return static_cast<T*>(view.data);
}
template <class T>
[[nodiscard]] const T* data(const ConstTensorView& view) {
  return static_cast<const T*>(view.data);
}

/// A matrix as kernels take it; `data` is null for an absent view.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;  ///< elements from one row to the next

  explicit Rows(const TensorView& view)
    requires(!std::is_const_v<T>)
      : data(static_cast<T*>(view.data)), stride(view.row_stride) {}
  explicit Rows(const ConstTensorView& view)
    requires(std::is_const_v<T>)
      : data(static_cast<T*>(view.data)), stride(view.row_stride) {}
#ifdef __CUDACC__
  [[nodiscard]] __device__ T* row(std::int64_t n) const { return data + n * stride; }
#endif
};

}  // namespace strata::cuda
