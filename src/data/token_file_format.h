// The layout of token files as reader and writer share it; token_file.h describes it in words.
// Nothing else includes this header.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "strata/base/bytes.h"

namespace strata::token_file {

static_assert(std::endian::native == std::endian::little, "token files are read as they are");

// The line ends are there to be broken by a transfer in text mode.
inline constexpr std::array<char, 8> kMagic{'S', 'T', 'R', 'T', 'O', 'K', '\r', '\n'};
inline constexpr std::uint32_t kVersion = 1;

/// The first 64 bytes of a file, as they lie there.
struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t bytes_per_token = 0;
  std::uint64_t tokens = 0;
  std::uint64_t documents = 0;
  std::uint64_t vocabulary = 0;
  std::uint64_t tokenizer_hash = 0;
  std::array<std::uint64_t, 2> zero{};
};
static_assert(sizeof(Header) == 64 && std::is_trivially_copyable_v<Header>);

/// Bytes of one entry in the list of document ends.
inline constexpr std::size_t kEndBytes = sizeof(std::uint64_t);

/// Returns where the list of document ends begins, in bytes from the beginning of the file.
[[nodiscard]] constexpr std::size_t ends_offset(std::uint64_t tokens, std::size_t bytes_per_token) {
  return sizeof(Header) + round_up(tokens * bytes_per_token, kEndBytes);
}

}  // namespace strata::token_file
