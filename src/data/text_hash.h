// The hash of texts that token files carry and that decides which documents are held out. Its
// values are part of the file format, so it must never change.
#pragma once

#include <cstdint>
#include <string_view>

#include "strata/base/random.h"

namespace strata {

/// Returns FNV-1a over the bytes (Fowler, Noll, Vo), mixed so that all 64 bits are equally good.
[[nodiscard]] constexpr std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  }
  return mix64(hash);
}

}  // namespace strata
