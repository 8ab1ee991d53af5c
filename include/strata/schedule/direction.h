#pragma once

#include <cstdint>

namespace strata {

/// In which order sub-batches pass a visit.
enum class Direction : std::uint8_t {
  kFixed,        ///< ascending in every visit
  kAlternating,  ///< the sub-batch that ended one visit begins the next
};

}  // namespace strata
