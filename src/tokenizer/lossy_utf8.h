// Makes text of the bytes of tokens, which need not be UTF-8 when tokens are taken apart.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace strata {

/// U+FFFD, which stands for what is not UTF-8.
inline constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";

struct Utf8Sequence {
  std::size_t bytes;
  bool valid;
};

/// Returns the code point at `at`, or the longest beginning of one, which one U+FFFD replaces.
[[nodiscard]] Utf8Sequence utf8_sequence_at(std::string_view text, std::size_t at);

/// Returns the text with U+FFFD for what is not UTF-8.
[[nodiscard]] std::string to_valid_utf8(std::string_view bytes);

/// Returns the byte of a token <0xAB>, as byte fallback has them; none if it is another token.
[[nodiscard]] std::optional<char> byte_of_token(std::string_view token);

}  // namespace strata
