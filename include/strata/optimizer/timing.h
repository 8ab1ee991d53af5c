#pragma once

#include <cstdint>

namespace strata {

/// When the optimizer runs.
enum class UpdateTiming : std::uint8_t {
  kBeforeUse,    ///< after the norm is known, just ahead of the next forward
  kOnArrival,    ///< as soon as a unit's gradient has landed; no global clip
  kSpeculative,  ///< likewise, as if nothing were clipped; done again if something is
};

/// True for a block whose update is left for the next forward where others are updated in backward:
/// `deferred` of `blocks`, or all, spread evenly, each in the middle of its share. So the host is
/// behind backward by a few blocks at most when that ends, and forward, which takes half as long,
/// does not meet all of them at its start.
[[nodiscard]] bool is_deferred(int block, int deferred, int blocks);

}  // namespace strata
