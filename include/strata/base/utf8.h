// Checks UTF-8, for who reads texts and for who shows them.

#pragma once

#include <cstddef>
#include <string_view>

namespace strata {

/// Returns how many bytes at the beginning of `text` are whole characters of valid UTF-8 by Unicode
/// 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF.
[[nodiscard]] std::size_t valid_utf8_bytes(std::string_view text);

}  // namespace strata
