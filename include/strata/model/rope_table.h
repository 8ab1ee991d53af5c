// The cosines and sines of the rotary embedding. The model makes the table once, in f64, and keeps
// it rounded on the device.
#pragma once

#include <cstdint>
#include <vector>

#include "strata/model/spec.h"

namespace strata {

/// The cosines and sines of the angles, [positions, E/2] row-major.
struct RopeTable {
  std::vector<double> cos;
  std::vector<double> sin;
};

/// Returns the frequencies f(i) of all pairs of dimensions, [E/2]; see make_rope_table().
[[nodiscard]] std::vector<double> rope_frequencies(const RopeSpec& rope, std::int64_t row_tokens);

/// Returns the table for positions 0 .. positions - 1: angle(p, i) = p * f(i) with f(i) =
/// theta^(-2i/E), scaled by type:
/// - linear: f(i) / factor;
/// - llama3: long waves are slowed by `factor`, short ones kept, with a linear blend between the
///   two bounds original_max_position_embeddings / {low,high}_freq_factor (Llama 3.1 model card);
/// - yarn: likewise, blended linearly in i between the dimensions whose waves turn beta_fast and
///   beta_slow times in original_max_position_embeddings, and cosines and sines are multiplied by
///   RopeScaling::magnitude() (Peng et al. 2023, "YaRN").
/// - longrope: f(i) / long_factor[i] if rows of `row_tokens` are longer than
///   original_max_position_embeddings, else f(i) / short_factor[i]; magnitude() as for yarn (Ding
///   et al. 2024, "LongRoPE").
/// Everything is computed in f64.
[[nodiscard]] RopeTable make_rope_table(const RopeSpec& rope, std::int64_t positions,
                                        std::int64_t row_tokens);

}  // namespace strata
