// Bytes as text of 64 characters, as in RFC 4648, which vocabularies of bytes are written in.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace strata {

/// Returns the bytes of a text with its padding; none if it is not base64.
[[nodiscard]] std::optional<std::string> base64_bytes(std::string_view text);

}  // namespace strata
