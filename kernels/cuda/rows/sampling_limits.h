// What sampling.cu takes of a multiprocessor, and how large vocabularies may be. It is plain C++,
// so that a test compares it with every architecture without a GPU.

#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::cuda::sampling {

inline constexpr int kThreads = 1024;
/// Sums of that many masses, each at most 2^44, fit in 64 bits.
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 19;
/// Bytes of static shared memory, at most.
inline constexpr std::size_t kStaticBytes = 8192;

/// Returns the bytes of dynamic shared memory: a bit per token that was seen, in words.
constexpr std::size_t seen_bytes(std::int64_t vocabulary) {
  return static_cast<std::size_t>((vocabulary + 31) / 32) * 4;
}

}  // namespace strata::cuda::sampling
