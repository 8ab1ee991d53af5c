// Hashes and random names as text: manifests, caches and names of temporary files have them.
#pragma once

#include <cstdint>
#include <string>

namespace strata {

/// Returns the 16 hex digits of a number, in lower case and with zeros in front.
[[nodiscard]] inline std::string hex_digits(std::uint64_t number) {
  std::string digits(16, '0');
  for (auto digit = digits.rbegin(); number != 0; ++digit, number >>= 4) {
    *digit = "0123456789abcdef"[number & 15];
  }
  return digits;
}

}  // namespace strata
