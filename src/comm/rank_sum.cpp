// Adds contributions of ranks block by block, each block in the order of ranks.
#include "comm/rank_sum.h"

#include <algorithm>
#include <vector>

namespace strata {

namespace {

template <class T>
void sum_parts(std::span<const std::byte* const> parts, std::size_t count, std::byte* sum) {
  // A block stays in the first-level cache while the parts are added one after the other.
  constexpr std::size_t kBlock = 1024;
  T block[kBlock];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = std::min(kBlock, count - begin);
    const auto part = [&](std::size_t p) { return reinterpret_cast<const T*>(parts[p]) + begin; };
    std::copy_n(part(0), size, block);
    for (std::size_t p = 1; p < parts.size(); ++p) {
      const T* values = part(p);
      for (std::size_t i = 0; i < size; ++i) block[i] += values[i];
    }
    std::copy_n(block, size, reinterpret_cast<T*>(sum) + begin);
  }
}

}  // namespace

void sum_in_rank_order(DType dtype, std::span<const std::byte* const> parts, std::size_t bytes,
                       std::byte* sum) {
  if (dtype == DType::kF64) {
    sum_parts<double>(parts, bytes / sizeof(double), sum);
  } else {
    sum_parts<float>(parts, bytes / sizeof(float), sum);
  }
}

void sum_in_rank_order(std::span<const std::byte> all, std::span<double> values) {
  if (values.empty()) return;
  std::vector<const std::byte*> parts;
  for (std::size_t begin = 0; begin < all.size(); begin += values.size_bytes()) {
    parts.push_back(all.data() + begin);
  }
  sum_in_rank_order(DType::kF64, parts, values.size_bytes(), std::as_writable_bytes(values).data());
}

}  // namespace strata
