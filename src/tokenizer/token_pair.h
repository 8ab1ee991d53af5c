// Two ids of tokens as one number, which tables of pairs are made of.
#pragma once

#include <cstdint>

namespace strata {

inline std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

}  // namespace strata
