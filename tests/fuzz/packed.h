// Files as gzip and zstd lay them out, written here without compression so that the fuzzer needs
// neither library.
#pragma once

#include <string>
#include <string_view>

namespace strata::fuzz {

/// Returns a gzip file of one stored block; `bytes` has at most 65,535.
[[nodiscard]] std::string pack_gzip(std::string_view bytes);
/// Returns a zstd frame of raw blocks without a checksum. `repeated` is how many blocks of 128 KiB
/// follow in which one byte is repeated, as in a bomb; 4 bytes each.
[[nodiscard]] std::string pack_zstd(std::string_view bytes, std::size_t repeated);

}  // namespace strata::fuzz
