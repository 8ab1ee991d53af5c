// ByteLevel writes each byte of a text as one printable code point, so that vocabularies of bytes
// can stand in JSON. Tokens are turned back into bytes when a file is read, and written so when a
// tokenizer is trained.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace strata {

/// Returns the bytes that a token of a ByteLevel vocabulary stands for; nothing if it has a code
/// point that stands for no byte, as special tokens may.
[[nodiscard]] std::optional<std::string> bytes_of_byte_level(std::string_view token);

/// Returns bytes as a ByteLevel vocabulary writes them.
[[nodiscard]] std::string byte_level_of(std::string_view bytes);

}  // namespace strata
