// The hash of texts that token files carry and that decides which documents are held out. Its
// values are part of the file format, so it must never change.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "strata/base/random.h"

namespace strata {

/// FNV-1a over the bytes of a text that comes in pieces (Fowler, Noll, Vo), mixed so that all 64
/// bits are equally good.
class TextHash {
 public:
  constexpr void add(std::string_view piece) {
    for (const char c : piece) {
      hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    }
  }
  [[nodiscard]] constexpr std::uint64_t value() const { return mix64(hash_); }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ull;
};

/// Adds the bytes of numbers, as they lie in memory.
template <class T>
void add_values(TextHash& hash, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  hash.add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// Returns the hash of a whole text.
[[nodiscard]] constexpr std::uint64_t hash_text(std::string_view text) {
  TextHash hash;
  hash.add(text);
  return hash.value();
}

}  // namespace strata
