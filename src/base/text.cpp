// Numbers and texts as people read them.

#include "strata/base/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace strata {

namespace {

template <class... Arguments>
std::string print(const char* format, Arguments... arguments) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, arguments...);
  return text.data();
}

}  // namespace

std::string format_count(std::int64_t value) {
  std::string text = std::to_string(value);
  const std::size_t first_digit = value < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first_digit + 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string format_duration(double seconds) {
  const auto s = static_cast<long long>(std::llround(std::max(0.0, seconds)));
  if (s < 60) return print("%llds", s);
  if (s < 3600) return print("%lldm%02llds", s / 60, s % 60);
  if (s < 86400) return print("%lldh%02lldm", s / 3600, s / 60 % 60);
  return print("%lldd%02lldh", s / 86400, s / 3600 % 24);
}

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  constexpr std::string_view kEllipsis = "...";
  std::size_t end = most - kEllipsis.size();
  const auto continues = [&](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  while (end > 0 && continues(text[end])) --end;  // not within a character
  return std::string(text.substr(0, end)).append(kEllipsis);
}

}  // namespace strata
