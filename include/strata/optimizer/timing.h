#pragma once

#include <cstdint>

namespace strata {

/// When the optimizer runs.
enum class UpdateTiming : std::uint8_t {
  kBeforeUse,    ///< after the norm is known, just ahead of the next forward
  kOnArrival,    ///< as soon as a unit's gradient has landed; no global clip
  kSpeculative,  ///< likewise, as if nothing were clipped; done again if something is
};

}  // namespace strata
