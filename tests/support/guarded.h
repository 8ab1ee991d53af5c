// The bytes of a tensor between guard bands, poisoned with NaN. The operator runner places every
// tensor this way, so a kernel that writes beside an output, or leaves a part of it out, is found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "strata/base/tensor.h"

namespace strata::test {

/// The bytes of a tensor in memory with canaries around it and between its rows. Everything that is
/// not an element is a canary; elements begin as NaN (all bits set) and are filled by the owner.
class GuardedImage {
 public:
  static constexpr std::size_t kBand = 256;
  static constexpr std::byte kCanary{0xa5};
  static constexpr std::byte kPoison{0xff};

  GuardedImage(DType dtype, const Shape& shape, std::int64_t row_stride)
      : row_bytes_(static_cast<std::size_t>(shape.row_elements()) * size_of(dtype)),
        stride_bytes_(static_cast<std::size_t>(row_stride) * size_of(dtype)),
        rows_(static_cast<std::size_t>(shape.rank() == 0 ? 1 : shape[0])),
        bytes_(2 * kBand + rows_ * stride_bytes_, kCanary) {
    for (std::size_t r = 0; r < rows_; ++r) std::memset(row(r), 0xff, row_bytes_);
  }

  [[nodiscard]] std::vector<std::byte>& bytes() { return bytes_; }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::byte* row(std::size_t r) { return bytes_.data() + kBand + r * stride_bytes_; }

  /// True if every canary is still there.
  [[nodiscard]] bool intact() const {
    std::size_t checked = 0;  // bytes before this one are elements or good canaries
    for (std::size_t r = 0; r <= rows_; ++r) {
      const std::size_t next = r < rows_ ? kBand + r * stride_bytes_ : bytes_.size();
      for (; checked < next; ++checked) {
        if (bytes_[checked] != kCanary) return false;
      }
      checked += row_bytes_;
    }
    return true;
  }

 private:
  std::size_t row_bytes_;
  std::size_t stride_bytes_;
  std::size_t rows_;
  std::vector<std::byte> bytes_;
};

}  // namespace strata::test
