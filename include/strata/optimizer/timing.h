// A timing says when the optimizer runs, in the words of the config. The planner makes rows of the
// block table from it; the optimizer takes from it when a step is decided.

#pragma once

#include <cstdint>

namespace strata {

/// These are the values of the key `optimizer.timing`.
enum class UpdateTiming : std::uint8_t {
  kBeforeUse,    ///< after the norm is known, just before the next forward
  kOnArrival,    ///< as soon as a block's gradient has landed; no global clip
  kSpeculative,  ///< likewise, as if nothing were clipped; done again if something is
};

}  // namespace strata
