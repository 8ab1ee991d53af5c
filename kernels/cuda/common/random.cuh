// This file draws random bits by counters on CUDA: AdamW rounds moments by them, and dropout draws
// masks. A key is 64 bits of strata/base/random.h, whose functions kernels call as well.

#pragma once

#include <cstdint>

#include "strata/base/random.h"

namespace strata::cuda {

/// Returns the 32 random bits of the number at this place of the run that a key is of, as
/// strata/ops/optimizer.h says.
__device__ __forceinline__ std::uint32_t bits_of(std::uint64_t key, std::uint32_t place) {
  std::uint32_t x = static_cast<std::uint32_t>(key) + place * 0x9e3779b9u;
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  x ^= x >> 16;
  return x ^ static_cast<std::uint32_t>(key >> 32);
}

}  // namespace strata::cuda
