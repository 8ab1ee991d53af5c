// Reading parts of a checkpoint on several ranks. A rank that finds damage, or that the system
// refuses to let read, tells the others at the next place where all meet, so that they end
// together.

#pragma once

#include <functional>
#include <string>

#include "strata/comm/ranks.h"

namespace strata {

/// What a rank has to say to the others of what it read. Both are empty if it could read all.
struct ReadFailure {
  std::string damage;   ///< that it found
  std::string refusal;  ///< of the system, so that nobody knows what is there
};

/// Calls `read` and returns what went wrong. DamagedCheckpoint, which all ranks know, comes out,
/// and so does what is not about reading.
[[nodiscard]] ReadFailure failure_of(const std::function<void()>& read);

/// Throws on all ranks if one has failed: AgreedError, or IoError on a rank that is alone, for a
/// refusal, else DamagedCheckpoint. What one rank cannot read may be whole, so that counts before
/// what another has found: nobody passes over a checkpoint then. All ranks call it; it blocks.
void meet(const ReadFailure& own, Ranks& ranks);

}  // namespace strata
