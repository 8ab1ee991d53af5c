#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "strata/base/tensor.h"

namespace strata {

/// The conditions that operators' check() functions state. Every failure is a ShapeError that
/// begins with "<operator>: <tensor>". Views without elements may have a null pointer.
class Checker {
 public:
  explicit Checker(std::string_view op) : op_(op) {}

  [[noreturn]] void fail(std::string_view tensor, const std::string& problem) const;
  void require(bool condition, std::string_view tensor, std::string_view problem) const;
  /// Present, of this rank, rows not overlapping.
  void rank(std::string_view tensor, const ConstTensorView& view, int expected) const;
  /// Present, of this shape and dtype, rows not overlapping.
  void matches(std::string_view tensor, const ConstTensorView& view, const Shape& shape,
               DType dtype) const;
  /// As matches(), and rows follow each other without gaps.
  void matches_contiguous(std::string_view tensor, const ConstTensorView& view, const Shape& shape,
                          DType dtype) const;
  void contiguous(std::string_view tensor, const ConstTensorView& view) const;
  void dtype_in(std::string_view tensor, const ConstTensorView& view,
                std::initializer_list<DType> allowed) const;
  /// f64, f32 or bf16.
  void compute_dtype(std::string_view tensor, const ConstTensorView& view) const;

 private:
  void layout(std::string_view tensor, const ConstTensorView& view) const;
  std::string_view op_;
};

/// False for a view that was left out; views without elements count as given.
[[nodiscard]] bool given(const ConstTensorView& view);

}  // namespace strata
