#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strata {

inline constexpr std::size_t kKiB = std::size_t{1} << 10;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kGiB = std::size_t{1} << 30;

/// "24GiB", "512 MiB", "1.5TiB", "2GB" (decimal), "4096". Throws ConfigError naming the text.
[[nodiscard]] std::size_t parse_bytes(std::string_view text);
/// Shortest readable form: "24 GiB", "1.50 GiB", "512 MiB", "17 B".
[[nodiscard]] std::string format_bytes(std::size_t bytes);

[[nodiscard]] constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace strata
