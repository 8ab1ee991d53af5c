// What packing does with what does not fit a row, in the words of the config.
#pragma once

#include <cstdint>

namespace strata {

/// What becomes of documents that are longer than a row.
enum class Overlong : std::uint8_t {
  kCut,   ///< every row's length of them is a document of its own, and so is what is left
  kDrop,  ///< they are left out
};

}  // namespace strata
