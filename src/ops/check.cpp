// Checks views and words the messages: what was expected, and what was found.

#include "check.h"

#include <algorithm>

namespace strata {

bool given(const ConstTensorView& view) { return view.data != nullptr || view.elements() == 0; }

void Checker::fail(std::string_view tensor, const std::string& problem) const {
  throw ShapeError(std::string(op_) + ": " + std::string(tensor) + " " + problem);
}

void Checker::require(bool condition, std::string_view tensor, std::string_view problem) const {
  if (!condition) fail(tensor, std::string(problem));
}

void Checker::layout(std::string_view tensor, const ConstTensorView& view) const {
  if (!given(view)) fail(tensor, "is missing");
  if (view.rows() > 1 && view.row_stride < view.shape.row_elements()) {
    fail(tensor, "has rows of " + std::to_string(view.shape.row_elements()) +
                     " elements but a row stride of " + std::to_string(view.row_stride));
  }
}

void Checker::rank(std::string_view tensor, const ConstTensorView& view, int expected) const {
  layout(tensor, view);
  if (view.shape.rank() != expected) {
    fail(tensor, "must have " + std::to_string(expected) + " dimensions, but its shape is " +
                     view.shape.to_string());
  }
}

void Checker::matches(std::string_view tensor, const ConstTensorView& view, const Shape& shape,
                      DType dtype) const {
  layout(tensor, view);
  if (view.shape != shape) {
    fail(tensor, "must have shape " + shape.to_string() + ", but has " + view.shape.to_string());
  }
  dtype_in(tensor, view, {dtype});
}

void Checker::matches_contiguous(std::string_view tensor, const ConstTensorView& view,
                                 const Shape& shape, DType dtype) const {
  matches(tensor, view, shape, dtype);
  contiguous(tensor, view);
}

void Checker::fp8(const Fp8Output& out, const Shape& shape) const {
  if (out.codes) {
    matches(out.codes_name, out.codes, shape, DType::kE4M3);
    matches_contiguous(out.scale_name, out.scale, {shape[0]}, DType::kF32);
  } else if (out.scale) {
    fail(out.scale_name, "must be absent without " + std::string(out.codes_name));
  }
}

void Checker::contiguous(std::string_view tensor, const ConstTensorView& view) const {
  require(view.contiguous(), tensor, "must be contiguous");
}

void Checker::dtype_in(std::string_view tensor, const ConstTensorView& view,
                       std::initializer_list<DType> allowed) const {
  if (std::find(allowed.begin(), allowed.end(), view.dtype) != allowed.end()) return;
  std::string names;
  for (const DType t : allowed) names += (names.empty() ? "" : " or ") + std::string(name_of(t));
  fail(tensor, "must be " + names + ", but is " + std::string(name_of(view.dtype)));
}

void Checker::compute_dtype(std::string_view tensor, const ConstTensorView& view) const {
  dtype_in(tensor, view, {DType::kF64, DType::kF32, DType::kBF16});
}

}  // namespace strata
