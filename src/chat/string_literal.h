// Reads string literals, whose escapes are Python's.
#pragma once

#include <string>
#include <string_view>

namespace strata::chat {

/// Returns what stands between the quotes of a literal, with its escapes replaced. Throws
/// SyntaxError with `line` for a \x, \u or \U without enough digits, for surrogates, and for \N.
[[nodiscard]] std::string unescaped(std::string_view literal, int line);

}  // namespace strata::chat
