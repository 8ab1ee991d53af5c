// Picks some of many items, spread evenly: which layers are meant, for instance, when only a share
// of them is.

#pragma once

#include <cstdint>

namespace strata {

/// Returns whether an item of `all` is one of the `some` of them that are spread evenly.
constexpr bool is_among(std::int64_t item, std::int64_t some, std::int64_t all) {
  return (item + 1) * some / all > item * some / all;
}

}  // namespace strata
