// Converts moments to 8 bits and back, in f64, by what the format means rather than by the integer
// arithmetic of the kernels.

#include "strata/ops/moment_codes.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace strata {

namespace {

constexpr int kMantissas = 16;  ///< codes with one exponent
constexpr int kBias = 127;      ///< of a scale, as of f32's exponent

/// What tells the formats of the moments apart.
struct Format {
  std::size_t scale;   ///< place among the scales of a block
  std::uint8_t codes;  ///< the bits of a code that are no sign
  int reach;           ///< binary places from the scale to the numbers with the largest exponent
};

constexpr Format format_of(Moment moment) {
  return moment == Moment::kFirst ? Format{.scale = 0, .codes = 0x7f, .reach = 10}
                                  : Format{.scale = 1, .codes = 0xff, .reach = 18};
}

/// Returns the scale of a block whose largest number, at least 0, this is; negative if there is
/// none.
int scale_of(float largest, const Format& format) {
  if (largest == 0) return 0;
  const std::uint32_t top = (std::bit_cast<std::uint32_t>(largest) + 0x7ffffu) >> 23;
  if (top >= 255) return -1;
  return std::max(static_cast<int>(top) - format.reach, 1);
}

/// Returns the code of x >= 0, in units of its scale, rounded to nearest, halves up.
int code_of(double x) {
  if (x < kMantissas) return static_cast<int>(std::floor(x + 0.5));
  const int exponent = std::ilogb(x) - 4;
  return exponent * kMantissas + static_cast<int>(std::floor(std::ldexp(x, -exponent) + 0.5));
}

}  // namespace

void decode_moments(Moment moment, std::span<const std::uint8_t> codes,
                    std::span<const std::uint8_t> scales, std::span<double> values) {
  const Format format = format_of(moment);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::size_t block = i / kMomentBlock;
    const int scale = scales[kMomentScales * block + format.scale];
    const int k = codes[i] & format.codes;
    const int number = k < kMantissas ? k : kMantissas + k % kMantissas;
    const double value = std::ldexp(number, std::max(k / kMantissas - 1, 0) + scale - kBias);
    values[i] = k == codes[i] ? value : -value;
  }
}

bool encode_moments(Moment moment, std::span<const double> values, std::span<std::uint8_t> codes,
                    std::span<std::uint8_t> scales) {
  const Format format = format_of(moment);
  bool finite = true;
  for (std::size_t begin = 0; begin < values.size(); begin += kMomentBlock) {
    const std::size_t end = std::min<std::size_t>(begin + kMomentBlock, values.size());
    float largest = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const auto x = static_cast<float>(std::abs(values[i]));
      largest = x <= largest ? largest : x;  // also if x is NaN
      if (std::isnan(largest)) break;
    }
    const int scale = scale_of(largest, format);
    finite = finite && scale >= 0;
    scales[kMomentScales * (begin / kMomentBlock) + format.scale] =
        static_cast<std::uint8_t>(std::max(scale, 0));
    for (std::size_t i = begin; i < end; ++i) {
      const double x = static_cast<double>(static_cast<float>(values[i]));
      int code = scale > 0 ? code_of(std::ldexp(std::abs(x), kBias - scale)) : 0;
      if (moment == Moment::kSecond && scale > 0 && x != 0) code = std::max(code, 1);
      if (moment == Moment::kFirst && scale > 0 && std::signbit(x)) code |= 0x80;
      codes[i] = static_cast<std::uint8_t>(code);
    }
  }
  return finite;
}

}  // namespace strata
