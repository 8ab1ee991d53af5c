// Normal random numbers by the ziggurat method. Its table is built once, at the first call, and
// then only read, so any number of threads may draw.

#include "strata/base/random.h"

#include <array>
#include <cmath>
#include <cstddef>

namespace strata {

namespace {

/// The area under exp(-x^2 / 2), x > 0, is cut into boxes of equal area on top of each other. Box i
/// reaches from 0 to edges[i]; within edges[i + 1] all of it lies under the curve. Box 0 is the one
/// at the bottom and stands for the tail too.
struct Ziggurat {
  static constexpr std::size_t kBoxes = 128;
  static constexpr double kTail = 3.442619855899;       ///< where the tail begins
  static constexpr double kArea = 9.91256303526217e-3;  ///< of a box

  std::array<double, kBoxes + 1> edges{};
  std::array<double, kBoxes> inner{};  ///< share of the box that is surely under the curve

  Ziggurat() {
    double height = density(kTail);
    edges[0] = kArea / height;
    edges[1] = kTail;
    for (std::size_t i = 2; i < kBoxes; ++i) {
      height += kArea / edges[i - 1];
      edges[i] = std::sqrt(-2.0 * std::log(height));
    }
    for (std::size_t i = 0; i < kBoxes; ++i) inner[i] = edges[i + 1] / edges[i];
  }

  static double density(double x) { return std::exp(-0.5 * x * x); }

  /// Returns the normal number that belongs to `bits`. Every further draw mixes the bits again, so
  /// the number is a function of the first ones.
  [[nodiscard]] double normal(std::uint64_t bits) const {
    for (;; bits = mix64(bits)) {
      const std::size_t box = bits % kBoxes;  // low bits: uniform_of drops them
      const double share = 2.0 * uniform_of(bits) - 1.0;
      const double x = share * edges[box];
      if (std::abs(share) < inner[box]) return x;
      if (box == 0) return std::copysign(beyond_tail(bits), share);
      bits = mix64(bits);
      const double low = density(edges[box]);
      if (low + uniform_of(bits) * (density(edges[box + 1]) - low) < density(x)) return x;
    }
  }

  /// Draws from the normal distribution beyond kTail (Marsaglia 1964).
  static double beyond_tail(std::uint64_t bits) {
    for (;;) {
      bits = mix64(bits);
      const double x = -std::log(uniform_of(bits)) / kTail;
      bits = mix64(bits);
      if (-2.0 * std::log(uniform_of(bits)) > x * x) return kTail + x;
    }
  }
};

}  // namespace

void random_normals(std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
                    std::span<double> values) {
  static const Ziggurat ziggurat;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = ziggurat.normal(random_bits(seed, stream, first + i));
  }
}

double random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  double value = 0;
  random_normals(seed, stream, index, {&value, 1});
  return value;
}

}  // namespace strata
