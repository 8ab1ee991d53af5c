// Computes the levels of 4-bit NormalFloat and the values of its scales, and rounds to them. The
// numbers have the bits of a computation in f32 by PyTorch, which bitsandbytes makes its own of.

#include "strata/ops/nf4_format.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace strata {

namespace {

/// Returns `count` numbers from `first` to `last`, equally far apart, each counted from the nearer
/// end and rounded once.
std::vector<float> evenly(float first, float last, std::size_t count) {
  const float step = (last - first) / static_cast<float>(count - 1);
  std::vector<float> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    const bool from_first = i < count / 2;
    const auto steps = static_cast<float>(from_first ? i : count - 1 - i);
    numbers.push_back(from_first ? std::fma(step, steps, first) : std::fma(-step, steps, last));
  }
  return numbers;
}

/// Returns the x that a normal number is below with probability p, from 1/2 to below 1, by Newton's
/// method: it comes from below, since the probability is concave in x there.
double normal_quantile(double p) {
  constexpr int kMostSteps = 100;
  double x = 0;
  for (int i = 0; i < kMostSteps; ++i) {
    const double below = 0.5 * std::erfc(-x / std::numbers::sqrt2);
    const double density = std::exp(-x * x / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    const double next = x + (p - below) / density;
    if (next == x) break;
    x = next;
  }
  return x;
}

/// The outermost quantile: between the probabilities of the last of 15 and of 16 equal parts.
constexpr float kOutermost = 0.9677083F;

std::array<float, kNf4Levels> levels() {
  std::vector<double> quantiles{0};
  const auto add = [&](std::size_t count, double sign) {
    for (const float p : evenly(kOutermost, 0.5F, count)) {
      if (p > 0.5F) quantiles.push_back(sign * normal_quantile(static_cast<double>(p)));
    }
  };
  add(kNf4Levels / 2 + 1, 1);  // of 16 levels 8 are above 0 and 7 below
  add(kNf4Levels / 2, -1);
  std::ranges::sort(quantiles);
  std::array<float, kNf4Levels> all{};
  const auto largest = static_cast<float>(quantiles.back());
  std::ranges::transform(quantiles, all.begin(),
                         [=](double x) { return static_cast<float>(x) / largest; });
  return all;
}

std::array<float, kNf4ScaleValues> scale_values() {
  constexpr int kExponents = 7;
  std::vector<float> values{0, 1};
  for (int e = 0; e < kExponents; ++e) {
    const auto power = static_cast<float>(std::pow(10.0, e - (kExponents - 1)));
    const std::vector<float> ends = evenly(0.1F, 1, (std::size_t{1} << e) + 1);
    for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
      const float value = power * ((ends[i] + ends[i + 1]) / 2);
      values.insert(values.end(), {value, -value});
    }
  }
  std::ranges::sort(values);
  std::array<float, kNf4ScaleValues> all{};
  std::ranges::copy(values, all.begin());
  return all;
}

/// Returns the place of the number of a sorted list that is nearest to x, of two the lower one.
template <std::size_t kCount>
std::uint8_t nearest(const std::array<float, kCount>& sorted, float x) {
  const auto above = std::ranges::lower_bound(sorted, x);
  if (above == sorted.begin()) return 0;
  const auto place = static_cast<std::size_t>(above - sorted.begin());
  if (place == kCount) return static_cast<std::uint8_t>(kCount - 1);
  const bool lower = x <= (sorted[place - 1] + sorted[place]) / 2;
  return static_cast<std::uint8_t>(lower ? place - 1 : place);
}

/// Returns what numbers with this largest magnitude are multiplied by: a block of zeros stays so.
float reciprocal(float largest) { return largest > 0 ? 1 / largest : 0; }

}  // namespace

Nf4Values nf4_values() { return {.levels = levels(), .scale_values = scale_values()}; }

float quantize_nf4_block(const Nf4Values& values, std::span<const float> block,
                         std::span<std::uint8_t> codes) {
  float largest = 0;
  for (const float x : block) largest = std::max(largest, std::abs(x));
  const float factor = reciprocal(largest);
  std::array<std::int32_t, kNf4Block> above{};  // of how many midpoints between levels
  for (std::size_t level = 1; level < kNf4Levels; ++level) {
    const float middle = (values.levels[level - 1] + values.levels[level]) / 2;
    for (std::size_t i = 0; i < above.size(); ++i) above[i] += block[i] * factor > middle ? 1 : 0;
  }
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<std::uint8_t>(above[2 * i] * 16 + above[2 * i + 1]);
  }
  return largest;
}

float nf4_offset(std::span<const float> scales) {
  double sum = 0;
  for (const float scale : scales) sum += static_cast<double>(scale);
  return scales.empty() ? 0 : static_cast<float>(sum / static_cast<double>(scales.size()));
}

float quantize_nf4_scales(const Nf4Values& values, float offset, std::span<const float> scales,
                          std::span<std::uint8_t> codes) {
  float largest = 0;
  for (const float scale : scales) largest = std::max(largest, std::abs(scale - offset));
  const float factor = reciprocal(largest);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = nearest(values.scale_values, (scales[i] - offset) * factor);
  }
  return largest;
}

void write_nf4_tables(const Nf4Values& values, float offset, std::span<float> tables) {
  tables[0] = offset;
  const auto levels = std::ranges::copy(values.levels, tables.begin() + 1).out;
  std::ranges::copy(values.scale_values, levels);
}

}  // namespace strata
