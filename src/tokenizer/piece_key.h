// Pieces of text are looked up by three words that are read from their bytes. Together with the
// length these words are the whole of a short piece, so that comparing them is exact.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace strata {

using PieceKey = std::array<std::uint64_t, 3>;

/// The bytes up to which key and length tell pieces apart.
inline constexpr std::size_t kMostKeyBytes = 24;

template <class Word>
[[nodiscard]] inline std::uint64_t load_word(const char* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

/// Returns the first 16 bytes and the last 8 of a piece that is not empty; they overlap in short
/// ones.
[[nodiscard]] inline PieceKey piece_key(std::string_view piece) {
  const char* const at = piece.data();
  const std::size_t n = piece.size();
  const auto byte = [at](std::size_t i) { return static_cast<std::uint64_t>(at[i] & 0xff); };
  if (n < 4) return {byte(0) | byte(n / 2) << 8 | byte(n - 1) << 16, 0, 0};
  if (n < 8) {
    return {load_word<std::uint32_t>(at) | load_word<std::uint32_t>(at + n - 4) << 32, 0, 0};
  }
  const std::uint64_t last = load_word<std::uint64_t>(at + n - 8);
  if (n <= 16) return {load_word<std::uint64_t>(at), last, 0};
  return {load_word<std::uint64_t>(at), load_word<std::uint64_t>(at + 8), last};
}

/// Returns a hash whose upper bits are the best.
[[nodiscard]] inline std::uint64_t hash_of(const PieceKey& key, std::size_t bytes) {
  std::uint64_t hash = key[0] * 0x9e3779b97f4a7c15U + bytes;
  hash = (hash ^ (hash >> 32) ^ key[1]) * 0xd6e8feb86659fd93U;
  return (hash ^ (hash >> 32) ^ key[2]) * 0xa0761d6478bd642fU;
}

}  // namespace strata
