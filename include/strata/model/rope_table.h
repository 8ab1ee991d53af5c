#pragma once

#include <cstdint>
#include <vector>

#include "strata/model/config.h"

namespace strata {

/// Rotation angles of the rotary embedding, [positions, D/2] row-major.
struct RopeTable {
  std::vector<double> cos;
  std::vector<double> sin;
};

/// angle(p, i) = p * f(i) with f(i) = theta^(-2i/D), for rope type "llama3" rescaled by wavelength:
/// long waves are slowed by `factor`, short ones kept, with a linear blend between the two bounds
/// original_max_position_embeddings / {low,high}_freq_factor (Llama 3.1 model card). All in f64.
[[nodiscard]] RopeTable make_rope_table(const LlamaConfig& config, std::int64_t positions);

}  // namespace strata
