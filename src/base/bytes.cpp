// Parses and prints sizes in bytes. Whole numbers are read exactly up to the largest std::size_t;
// only a fraction goes through floating point.

#include "strata/base/bytes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "strata/base/error.h"

namespace strata {

namespace {

constexpr std::array<std::pair<std::string_view, std::size_t>, 10> kUnits{{
    {"", 1},
    {"B", 1},
    {"KiB", kKiB},
    {"MiB", kMiB},
    {"GiB", kGiB},
    {"TiB", kGiB << 10},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
}};

[[noreturn]] void reject(std::string_view text) {
  throw ConfigError("\"" + std::string(text) +
                    "\" is not a size in bytes; write a number and a unit, like \"24GiB\", "
                    "\"1.5 TiB\", \"2GB\" (decimal) or \"4096\"");
}

std::size_t factor_of(std::string_view unit, std::string_view text) {
  for (const auto& [name, factor] : kUnits) {
    if (name == unit) return factor;
  }
  reject(text);
}

}  // namespace

std::size_t parse_bytes(std::string_view text) {
  const std::size_t number_end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, number_end);
  std::string_view unit = text.substr(number_end);
  if (!number.empty() && unit.starts_with(' ')) unit.remove_prefix(1);
  const std::size_t factor = factor_of(unit, text);

  // Whole numbers stay exact above 2^53; only a fraction goes through floating point.
  const char* const end = number.data() + number.size();
  if (number.find('.') == std::string_view::npos) {
    std::size_t value = 0;
    const auto [stop, error] = std::from_chars(number.data(), end, value);
    if (error != std::errc{} || stop != end || value > SIZE_MAX / factor) reject(text);
    return value * factor;
  }
  double value = 0;
  const auto [stop, error] = std::from_chars(number.data(), end, value, std::chars_format::fixed);
  if (error != std::errc{} || stop != end || factor == 1) reject(text);
  const double bytes = value * static_cast<double>(factor);
  if (bytes >= 0x1.0p64) reject(text);
  return static_cast<std::size_t>(bytes);
}

std::string format_bytes(std::size_t bytes) {
  constexpr std::array<const char*, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  double value = static_cast<double>(bytes);
  // 1023.995 would be printed as 1024.00 of the smaller unit.
  while (unit + 1 < kNames.size() && value >= 1023.995) {
    value /= 1024;
    ++unit;
  }
  const std::size_t factor = std::size_t{1} << (10 * unit);
  std::array<char, 48> text{};
  const int decimals = bytes % factor == 0 ? 0 : 2;
  std::snprintf(text.data(), text.size(), "%.*f %s", decimals, value, kNames[unit]);
  return text.data();
}

}  // namespace strata
