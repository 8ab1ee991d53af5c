// The parts of shapes and views that check or compute: extents, slices and byte ranges. The view's
// code is compiled once, for mutable and for const memory.

#include "strata/base/tensor.h"

namespace strata {

Shape::Shape(std::initializer_list<std::int64_t> dims) {
  if (dims.size() > kMaxRank) throw ShapeError("a shape has at most 3 dimensions");
  for (const std::int64_t d : dims) {
    if (d < 0) throw ShapeError("a shape cannot have a negative extent");
    dims_[static_cast<std::size_t>(rank_++)] = d;
  }
}

std::int64_t Shape::elements() const {
  std::int64_t product = 1;
  for (int i = 0; i < rank_; ++i) product *= (*this)[i];
  return product;
}

std::int64_t Shape::row_elements() const {
  std::int64_t product = 1;
  for (int i = 1; i < rank_; ++i) product *= (*this)[i];
  return product;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += (i == 0 ? "" : ", ") + std::to_string((*this)[i]);
  return text + "]";
}

template <class Void>
BasicTensorView<Void> BasicTensorView<Void>::slice_rows(std::int64_t begin,
                                                        std::int64_t count) const {
  if (begin < 0 || count < 0 || begin + count > rows()) {
    throw ShapeError("rows [" + std::to_string(begin) + ", " + std::to_string(begin + count) +
                     ") are outside of " + shape.to_string());
  }
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  BasicTensorView part = *this;
  part.data =
      static_cast<Byte*>(data) + static_cast<std::size_t>(begin * row_stride) * size_of(dtype);
  switch (shape.rank()) {
    case 1: part.shape = Shape{count}; break;
    case 2: part.shape = Shape{count, shape[1]}; break;
    default: part.shape = Shape{count, shape[1], shape[2]}; break;
  }
  return part;
}

template <class Void>
ByteRange BasicTensorView<Void>::bytes() const {
  if (data == nullptr || elements() == 0) return {};
  const std::int64_t last = (rows() - 1) * row_stride + shape.row_elements();
  return {static_cast<const std::byte*>(data), static_cast<std::size_t>(last) * size_of(dtype)};
}

template struct BasicTensorView<void>;
template struct BasicTensorView<const void>;

}  // namespace strata
