// What operators' check() functions are written with: conditions on shapes, dtypes and layouts. A
// condition that does not hold throws ShapeError, so a wrong tensor stops at the submission and not
// in a kernel.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "strata/base/tensor.h"

namespace strata {

/// An output as QuantizeFp8Rows has it, and what its tensors are called.
struct Fp8Output {
  std::string_view codes_name;
  const TensorView& codes;
  std::string_view scale_name;
  const TensorView& scale;
};

/// States conditions on the tensors of one operator. Every failure is a ShapeError that begins with
/// "<operator>: <tensor>". Views without elements may have a null pointer.
class Checker {
 public:
  explicit Checker(std::string_view op) : op_(op) {}

  /// Throws "<operator>: <tensor> <problem>".
  [[noreturn]] void fail(std::string_view tensor, const std::string& problem) const;
  /// Fails with `problem` unless `condition` holds.
  void require(bool condition, std::string_view tensor, std::string_view problem) const;
  /// Requires that the view is present and has this rank, and that its rows do not overlap.
  void rank(std::string_view tensor, const ConstTensorView& view, int expected) const;
  /// Requires that the view is present and has this shape and dtype, and that its rows do not
  /// overlap.
  void matches(std::string_view tensor, const ConstTensorView& view, const Shape& shape,
               DType dtype) const;
  /// Requires what matches() does, and that rows follow each other without gaps.
  void matches_contiguous(std::string_view tensor, const ConstTensorView& view, const Shape& shape,
                          DType dtype) const;
  /// Requires that codes, if they are there, have this shape and scales; else no scales.
  void fp8(const Fp8Output& out, const Shape& shape) const;
  /// Requires that rows follow each other without gaps.
  void contiguous(std::string_view tensor, const ConstTensorView& view) const;
  /// Requires that the dtype is one of `allowed`.
  void dtype_in(std::string_view tensor, const ConstTensorView& view,
                std::initializer_list<DType> allowed) const;
  /// Requires that the dtype is f64, f32 or bf16.
  void compute_dtype(std::string_view tensor, const ConstTensorView& view) const;

 private:
  void layout(std::string_view tensor, const ConstTensorView& view) const;
  std::string_view op_;
};

/// Returns false for a view that was left out; views without elements count as given.
[[nodiscard]] bool given(const ConstTensorView& view);

}  // namespace strata
