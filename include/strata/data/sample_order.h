// In which order training sees the samples of a set. Each epoch is a permutation that is computed
// for one index at a time and never stored, so any rank can find its samples, and a run its place,
// without a list. Pure functions, safe from any thread.
#pragma once

#include <cstdint>

namespace strata {

/// The place of one sample: which pass over the set, and which of its n samples.
struct SamplePosition {
  std::int64_t epoch = 0;
  std::int64_t position = 0;
  bool operator==(const SamplePosition&) const = default;
};

/// Returns where a bijection of [0, n) onto itself, another one for every (seed, epoch), takes
/// `index`. It is a Feistel network over the next power of four, walked along its cycles until it
/// is back inside (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). Needs 0 <=
/// index < n.
[[nodiscard]] std::int64_t permute(std::uint64_t seed, std::int64_t epoch, std::int64_t index,
                                   std::int64_t n);

/// Returns where the global sample index (counted over the whole training run, on all ranks) falls
/// in a set of n samples. It depends on nothing else, so neither ranks nor batch sizes change which
/// data a run sees, and in which order. Needs global_index >= 0 and n > 0.
[[nodiscard]] SamplePosition sample(std::uint64_t seed, std::int64_t global_index, std::int64_t n);

}  // namespace strata
