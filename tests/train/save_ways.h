// The ways in which a run may hold and update its state, all of which have the same numbers: what
// tests of checkpoints go through.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/config/config.h"
#include "support/tiny_config.h"

namespace strata::test {

/// What the numbers of a run depend on.
struct Numbers {
  DType dtype = DType::kBF16;
  DType moments = DType::kF32;
  std::int64_t passes = 1;
  bool tied = false;
  int ranks = 1;
  double clip = 1e9;  ///< at which nothing is clipped

  [[nodiscard]] std::string to_string() const;
};

/// When and where blocks are updated.
struct Placement {
  UpdateTiming timing = UpdateTiming::kBeforeUse;
  std::int64_t deferred = 0;
  std::int64_t resident = 0;  ///< units, of 5
  double interleave = 0;
  std::int64_t ring = 0;

  [[nodiscard]] std::string to_string() const;
};

/// How much of the state of the host is staged.
enum class Staged : std::uint8_t { kNone, kHalf, kAll };
inline constexpr Staged kStaged[] = {Staged::kHalf, Staged::kNone, Staged::kAll};
[[nodiscard]] std::string to_string(Staged staged);

/// Returns all placements that these numbers allow.
[[nodiscard]] std::vector<Placement> placements_of(const Numbers& numbers);

/// Returns a config of five units, with a slot less than layers.
[[nodiscard]] RunConfig save_config(const Numbers& numbers, const Placement& placement = {},
                                    Staged staged = Staged::kNone,
                                    Execution execution = Execution::kThreads);

/// Returns the executions that so many ranks can have, in turn.
[[nodiscard]] Execution execution_of(int ranks, std::size_t turn);

}  // namespace strata::test
