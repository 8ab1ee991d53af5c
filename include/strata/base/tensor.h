// Shapes and typed views of memory. Arenas and stores own the bytes; operators, kernels and files
// are handed views, which are small values that own nothing and must not outlive the memory. Misuse
// (wrong dtype, rows out of range) throws ShapeError.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "strata/base/dtype.h"
#include "strata/base/error.h"

namespace strata {

/// The extents of a tensor of up to three dimensions.
class Shape {
 public:
  static constexpr int kMaxRank = 3;

  Shape() = default;
  /// Throws ShapeError for more than three dimensions or a negative extent.
  Shape(std::initializer_list<std::int64_t> dims);

  [[nodiscard]] int rank() const { return rank_; }
  /// Returns extent i; beyond the rank, up to kMaxRank, it is 1.
  [[nodiscard]] std::int64_t operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
  /// Returns the product of all extents, which is 1 for rank 0.
  [[nodiscard]] std::int64_t elements() const;
  /// Returns the product of all extents but the first: the elements of one row.
  [[nodiscard]] std::int64_t row_elements() const;
  /// Returns text for messages, such as "[2, 128]".
  [[nodiscard]] std::string to_string() const;
  bool operator==(const Shape&) const = default;

 private:
  std::array<std::int64_t, kMaxRank> dims_{1, 1, 1};
  int rank_ = 0;
};

/// A byte range of some memory, for traces and hazard checks.
struct ByteRange {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
};

/// A typed view of memory that somebody else owns. Rows (everything after the first dimension) are
/// contiguous; the rows themselves are `row_stride` elements apart, so a view may select columns of
/// a wider matrix (q, k and v inside a packed qkv buffer, logits with padded rows). A view whose
/// `data` is null is absent.
template <class Void>
struct BasicTensorView {
  Void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  std::int64_t row_stride = 0;  ///< elements from one row to the next

  BasicTensorView() = default;
  /// A contiguous view.
  BasicTensorView(Void* data_in, DType dtype_in, Shape shape_in)
      : data(data_in), dtype(dtype_in), shape(shape_in), row_stride(shape_in.row_elements()) {}
  /// A view whose rows are `row_stride_in` elements apart.
  BasicTensorView(Void* data_in, DType dtype_in, Shape shape_in, std::int64_t row_stride_in)
      : data(data_in), dtype(dtype_in), shape(shape_in), row_stride(row_stride_in) {}
  /// A mutable view is also a const view.
  template <class Other>
    requires(std::is_const_v<Void> && !std::is_const_v<Other>)
  BasicTensorView(const BasicTensorView<Other>& o)  // NOLINT(google-explicit-constructor)
      : data(o.data), dtype(o.dtype), shape(o.shape), row_stride(o.row_stride) {}

  [[nodiscard]] explicit operator bool() const { return data != nullptr; }
  [[nodiscard]] std::int64_t rows() const { return shape.rank() == 0 ? 1 : shape[0]; }
  [[nodiscard]] std::int64_t elements() const { return shape.elements(); }
  /// Returns whether the elements follow each other without gaps.
  [[nodiscard]] bool contiguous() const {
    return rows() <= 1 || row_stride == shape.row_elements();
  }
  /// Returns a pointer to the first element. Throws ShapeError if T is not the view's dtype.
  template <class T>
  [[nodiscard]] auto* as() const {
    if (kDTypeOf<T> != dtype) {
      throw ShapeError("tensor holds " + std::string(name_of(dtype)) + ", not " +
                       std::string(name_of(kDTypeOf<T>)));
    }
    if constexpr (std::is_const_v<Void>) {
      return static_cast<const T*>(data);
    } else {
      return static_cast<T*>(data);
    }
  }
  /// Returns the view of rows [begin, begin + count). Throws ShapeError if this view does not have
  /// them.
  [[nodiscard]] BasicTensorView slice_rows(std::int64_t begin, std::int64_t count) const;
  /// Returns everything between the first and the last byte of the view, gaps between rows
  /// included; nothing for an absent or empty view.
  [[nodiscard]] ByteRange bytes() const;
};

using TensorView = BasicTensorView<void>;
using ConstTensorView = BasicTensorView<const void>;

extern template struct BasicTensorView<void>;
extern template struct BasicTensorView<const void>;

}  // namespace strata
