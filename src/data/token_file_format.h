// Holds the layout of token files as reader and writer share it; token_file.h describes it in
// words. Nothing else includes this header.
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
/// The version of files in which the loss of every token counts.
inline constexpr std::uint32_t kPlainVersion = 1;
/// The version of files with flags.
inline constexpr std::uint32_t kFlagsVersion = 2;
/// The version of files with pairs, which earlier readers must refuse.
inline constexpr std::uint32_t kPairsVersion = 3;
/// The flag of files that have a bit for each token, 1 if its loss counts.
inline constexpr std::uint64_t kLossFlag = 1;
/// The flag of files whose documents are pairs, each a chosen answer and a rejected one; they have
/// the other flag, too.
inline constexpr std::uint64_t kPairsFlag = 2;

/// The first 64 bytes of a file, as they lie there.
struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kPlainVersion;
  std::uint32_t bytes_per_token = 0;
  std::uint64_t tokens = 0;
  std::uint64_t documents = 0;
  std::uint64_t vocabulary = 0;
  std::uint64_t tokenizer_hash = 0;
  std::uint64_t flags =
      0;  ///< of version 2: kLossFlag or 0; of version 3 both; of version 1 always 0
  std::uint64_t zero = 0;
};
static_assert(sizeof(Header) == 64 && std::is_trivially_copyable_v<Header>);

/// Bytes of one entry in the list of document ends. Every part begins at a multiple of them.
inline constexpr std::size_t kEndBytes = sizeof(std::uint64_t);

/// Returns the bytes of a bit for each token, with what fills them up.
[[nodiscard]] constexpr std::size_t loss_bytes(std::uint64_t tokens) {
  constexpr std::size_t kBitsOfByte = 8;
  return round_up(tokens, kBitsOfByte * kEndBytes) / kBitsOfByte;
}

/// Returns where the ids end, in bytes from the beginning of the file, with what fills them up:
/// there the loss bits begin, or the list of document ends if there are none.
[[nodiscard]] constexpr std::size_t ids_end(std::uint64_t tokens, std::size_t bytes_per_token) {
  return sizeof(Header) + round_up(tokens * bytes_per_token, kEndBytes);
}

}  // namespace strata::token_file
