// Counter-based random numbers: every draw is a pure function of (seed, stream, index), so weights,
// sample orders and stochastic rounding do not depend on ranks, threads or the order of draws. The
// bit functions are constexpr, and kernels on the GPU compute the same ones. Nothing has state or
// throws.
#pragma once

#include <cstdint>
#include <span>

namespace strata {

/// Mixes 64 bits so that every output bit depends on every input bit: the finaliser of SplitMix64
/// (Steele et al. 2014).
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// Returns 64 random bits, a pure function of (seed, stream, index): any element can be drawn
/// again, in any order, on any rank. Each use takes a stream of its own.
[[nodiscard]] constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream,
                                                  std::uint64_t index) {
  return mix64(mix64(mix64(seed) ^ stream) ^ index);
}

/// Returns a uniform number in (0, 1), never 0 or 1, that the upper 53 of 64 random bits decide.
[[nodiscard]] constexpr double uniform_of(std::uint64_t bits) {
  // A sum of 2^52 or more has no room for the half: it is rounded, and the largest one to 2^53.
  const double u = (static_cast<double>(bits >> 11) + 0.5) * 0x1.0p-53;
  constexpr double kLargest = 1 - 0x1.0p-53;
  return u < kLargest ? u : kLargest;
}

/// Returns the uniform number in (0, 1) of (seed, stream, index), never 0 or 1.
[[nodiscard]] constexpr double random_uniform(std::uint64_t seed, std::uint64_t stream,
                                              std::uint64_t index) {
  return uniform_of(random_bits(seed, stream, index));
}

/// Returns a standard normal number by the ziggurat of Marsaglia and Tsang (2000) in the form of
/// Doornik (2005), which follows the distribution exactly, tails included.
[[nodiscard]] double random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);
/// Sets values[i] = random_normal(seed, stream, first + i), for whole tensors.
void random_normals(std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
                    std::span<double> values);

}  // namespace strata
