// Radix sort by digits of at most 11 bits, least significant first. Every pass is stable, so equal
// ids stay in order of their positions; two passes do for vocabularies up to four million.

#include "data/sort_positions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>

namespace strata {

namespace {

constexpr int kMostDigitBits = 11;  // 2048 counters of 4 bytes stay in the first-level cache

struct Digit {
  int shift = 0;
  int bits = 0;
  [[nodiscard]] std::size_t of(std::int32_t id) const {
    return (static_cast<std::size_t>(id) >> shift) & ((std::size_t{1} << bits) - 1);
  }
};

/// Sorts the positions source(0), source(1), ... into `to` by one digit of their ids; a stable
/// counting sort.
template <class Source>
void sort_by_digit(std::span<const std::int32_t> ids, Digit digit, const Source& source,
                   std::span<std::int32_t> to) {
  std::array<std::int32_t, (std::size_t{1} << kMostDigitBits)> next{};
  for (const std::int32_t id : ids) ++next[digit.of(id)];
  std::exclusive_scan(next.begin(), next.end(), next.begin(), 0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int32_t n = source(i);
    std::int32_t& slot = next[digit.of(ids[static_cast<std::size_t>(n)])];
    to[static_cast<std::size_t>(slot++)] = n;
  }
}

}  // namespace

void sort_positions(std::span<const std::int32_t> ids, std::int64_t vocabulary,
                    std::span<std::int32_t> order, std::span<std::int32_t> scratch) {
  const int bits =
      std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(vocabulary - 1))));
  const int digits = (bits + kMostDigitBits - 1) / kMostDigitBits;
  const int digit_bits = (bits + digits - 1) / digits;
  // Digits go back and forth between the two buffers; the last one must end in `order`.
  std::span<std::int32_t> to = digits % 2 == 1 ? order : scratch;
  std::span<std::int32_t> from = digits % 2 == 1 ? scratch : order;
  for (int d = 0; d < digits; ++d) {
    const Digit digit{.shift = d * digit_bits, .bits = digit_bits};
    if (d == 0) {
      sort_by_digit(ids, digit, [](std::size_t i) { return static_cast<std::int32_t>(i); }, to);
    } else {
      sort_by_digit(ids, digit, [&](std::size_t i) { return from[i]; }, to);
    }
    std::swap(to, from);
  }
}

}  // namespace strata
