// The limits of a model's sizes. They keep every product of sizes within 64 bits. Fields of a
// config have them, and lists with an entry for each layer are made no longer.

#pragma once

#include <cstdint>

namespace strata {

inline constexpr std::int64_t kMostWidth = 1 << 20;
inline constexpr std::int64_t kMostHeads = 1 << 12;
inline constexpr std::int64_t kMostHeadDim = 1 << 12;
inline constexpr std::int64_t kMostLayers = 1 << 10;

}  // namespace strata
