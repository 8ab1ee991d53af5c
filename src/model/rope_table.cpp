// Computes the angles of the rotary embedding, with the scaling of wavelengths that the config asks
// for.

#include "strata/model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace strata {

namespace {

double llama3_frequency(double frequency, const RopeScaling& scaling) {
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  const double original = static_cast<double>(scaling.original_max_position_embeddings);
  const double longest_kept = original / scaling.high_freq_factor;
  const double shortest_slowed = original / scaling.low_freq_factor;
  if (wavelength < longest_kept) return frequency;
  if (wavelength > shortest_slowed) return frequency / scaling.factor;
  const double blend = (original / wavelength - scaling.low_freq_factor) /
                       (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0 - blend) * frequency / scaling.factor + blend * frequency;
}

/// Returns the dimension, of pairs, whose wave turns so often in so many positions; it is no whole
/// number, and may lie outside of those that there are.
double dimension_turning(double turns, double positions, const RopeSpec& rope) {
  return static_cast<double>(rope.width) * std::log(positions / (turns * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(rope.theta));
}

/// The dimensions between which yarn blends: below the first waves are kept, above the last they
/// are slowed in full.
struct YarnBounds {
  double first = 0;
  double last = 0;
};

YarnBounds yarn_bounds(const RopeSpec& rope, const RopeScaling& scaling) {
  const auto positions = static_cast<double>(scaling.original_max_position_embeddings);
  YarnBounds bounds{dimension_turning(scaling.beta_fast, positions, rope),
                    dimension_turning(scaling.beta_slow, positions, rope)};
  if (scaling.truncate) bounds = {std::floor(bounds.first), std::ceil(bounds.last)};
  bounds.first = std::max(bounds.first, 0.0);
  bounds.last = std::min(bounds.last, static_cast<double>(rope.width - 1));
  constexpr double kLeast = 0.001;  // as transformers has it where both are the same
  if (bounds.first == bounds.last) bounds.last += kLeast;
  return bounds;
}

}  // namespace

std::vector<double> rope_frequencies(const RopeSpec& rope, std::int64_t row_tokens) {
  const std::int64_t half = rope.width / 2;
  const RopeScaling scaling = rope.scaling.value_or(RopeScaling{});
  const YarnBounds bounds =
      scaling.rope_type == RopeType::kYarn ? yarn_bounds(rope, scaling) : YarnBounds{};
  const std::vector<double>& own_factors = row_tokens > scaling.original_max_position_embeddings
                                               ? scaling.long_factor
                                               : scaling.short_factor;
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < half; ++i) {
    double frequency = std::pow(rope.theta, -static_cast<double>(i) / static_cast<double>(half));
    switch (scaling.rope_type) {
      case RopeType::kDefault:
      case RopeType::kDynamic: break;
      case RopeType::kLinear: frequency /= scaling.factor; break;
      case RopeType::kLongRope: frequency /= own_factors.at(static_cast<std::size_t>(i)); break;
      case RopeType::kLlama3: frequency = llama3_frequency(frequency, scaling); break;
      case RopeType::kYarn: {
        const double slowed = std::clamp(
            (static_cast<double>(i) - bounds.first) / (bounds.last - bounds.first), 0.0, 1.0);
        frequency = slowed * frequency / scaling.factor + (1.0 - slowed) * frequency;
        break;
      }
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

RopeTable make_rope_table(const RopeSpec& rope, std::int64_t positions, std::int64_t row_tokens) {
  const std::vector<double> frequencies = rope_frequencies(rope, row_tokens);
  const double magnitude = rope.scaling ? rope.scaling->magnitude() : 1.0;
  RopeTable table;
  table.cos.reserve(static_cast<std::size_t>(positions) * frequencies.size());
  table.sin.reserve(static_cast<std::size_t>(positions) * frequencies.size());
  for (std::int64_t p = 0; p < positions; ++p) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(p) * frequency;
      table.cos.push_back(magnitude * std::cos(angle));
      table.sin.push_back(magnitude * std::sin(angle));
    }
  }
  return table;
}

}  // namespace strata
