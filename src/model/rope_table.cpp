// Computes the angles of the rotary embedding, with Llama 3.1's rescaling of wavelengths where the
// config asks for it.

#include "strata/model/rope_table.h"

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

}  // namespace

RopeTable make_rope_table(const RopeSpec& rope, std::int64_t positions) {
  const std::int64_t half = rope.width / 2;
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < half; ++i) {
    const double frequency =
        std::pow(rope.theta, -static_cast<double>(i) / static_cast<double>(half));
    const bool slowed = rope.scaling && rope.scaling->rope_type == RopeType::kLlama3;
    frequencies.push_back(slowed ? llama3_frequency(frequency, *rope.scaling) : frequency);
  }
  RopeTable table;
  table.cos.reserve(static_cast<std::size_t>(positions * half));
  table.sin.reserve(static_cast<std::size_t>(positions * half));
  for (std::int64_t p = 0; p < positions; ++p) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(p) * frequency;
      table.cos.push_back(std::cos(angle));
      table.sin.push_back(std::sin(angle));
    }
  }
  return table;
}

}  // namespace strata
