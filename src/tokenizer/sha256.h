// SHA-256 (FIPS 180-4), by which vocabularies are known whose files do not name themselves.
#pragma once

#include <string>
#include <string_view>

namespace strata {

/// Returns the hash as 64 lower-case hexadecimal digits.
[[nodiscard]] std::string sha256_of(std::string_view bytes);

}  // namespace strata
