// Rounds rows to codes of a byte. The bits are those that the operators on rows define.

#include "strata/ops/row_codes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "strata/base/round.h"
#include "strata/ops/fp8.h"
#include "strata/ops/quantize.h"

namespace strata {

namespace {

/// Returns the bits, as f32, of the largest magnitude of a row. They are in the order of the
/// numbers, with infinity and then NaNs above them.
std::uint32_t largest_magnitude(std::span<const double> row) {
  std::uint32_t largest = 0;
  for (const double x : row) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(static_cast<float>(x)) & 0x7fffffffu);
  }
  return largest;
}

}  // namespace

float encode_fp8_row(std::span<const double> row, std::span<std::uint8_t> codes) {
  const float scale = fp8_scale(largest_magnitude(row));
  std::ranges::transform(row, codes.begin(),
                         [=](double x) { return rounded_to_e4m3(x / double{scale}).bits; });
  return scale;
}

float encode_int8_row(std::span<const double> row, std::span<std::uint8_t> codes) {
  constexpr double kMost = QuantizeRows::kLevels;
  const auto largest = std::bit_cast<float>(largest_magnitude(row));
  const float scale = std::isfinite(largest) ? largest / float{QuantizeRows::kLevels}
                                             : std::numeric_limits<float>::quiet_NaN();
  std::ranges::transform(row, codes.begin(), [=](double x) {
    if (!(scale > 0)) return std::uint8_t{0};
    const double level = std::clamp(std::nearbyint(x / double{scale}), -kMost, kMost);
    return std::bit_cast<std::uint8_t>(static_cast<std::int8_t>(level));
  });
  return scale;
}

}  // namespace strata
