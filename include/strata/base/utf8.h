// Checks and mends UTF-8. Whoever reads texts or shows them asks here.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strata {

/// Returns how many bytes at the beginning of `text` are whole characters of valid UTF-8 by Unicode
/// 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF.
[[nodiscard]] std::size_t valid_utf8_bytes(std::string_view text);

/// Returns `text` with U+FFFD for what is not valid UTF-8. The beginning of a character whose rest
/// is missing becomes one U+FFFD, any other byte that is wrong one of its own, as Unicode 15
/// advises in section 3.9 ("U+FFFD substitution of maximal subparts").
[[nodiscard]] std::string with_valid_utf8(std::string_view text);

}  // namespace strata
