// Sizes in bytes as people write and read them: parsing for the config and the command line,
// printing for logs and messages, and the constants and rounding that memory plans and file formats
// share. Only parse_bytes throws; everything here is safe from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strata {

inline constexpr std::size_t kKiB = std::size_t{1} << 10;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kGiB = std::size_t{1} << 30;

/// Parses "24GiB", "512 MiB", "1.5TiB", "2GB" (decimal) or "4096" into bytes; a fraction of a byte
/// is dropped. Throws ConfigError quoting the text if it is none of these or does not fit
/// std::size_t.
[[nodiscard]] std::size_t parse_bytes(std::string_view text);
/// Prints a size in the largest binary unit that keeps it at 1 or above, with two decimals unless
/// it is a whole number of that unit: "24 GiB", "1.50 GiB", "512 MiB", "17 B".
[[nodiscard]] std::string format_bytes(std::size_t bytes);

/// Returns the smallest multiple of `multiple` (at least 1) that is not below `value`.
[[nodiscard]] constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace strata
