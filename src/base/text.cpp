// Numbers and texts as people read them.

#include "strata/base/text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>

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

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    const bool obeyed = (code < ' ' && c != '\n' && c != '\t') || code == 0x7f;
    shown += obeyed ? print("\\x%02x", code) : std::string(1, c);
  }
  return shown;
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string lines;
  std::string line;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > width) {
      lines += std::string(indent, ' ') + line + '\n';
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) lines += std::string(indent, ' ') + line + '\n';
  return lines;
}

std::string wrapped_lines(std::string_view text, std::size_t width) {
  std::string all;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.size() <= width) {
      all += line + '\n';
      continue;
    }
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    std::size_t column = begin;
    const std::size_t furthest = 2 * width / 3;
    std::size_t gap = line.find("  ", begin);
    while (gap < furthest) {
      column = std::min(line.find_first_not_of(' ', gap), line.size());
      gap = line.find("  ", column);
    }
    if (column > furthest) column = begin;
    // The head keeps its spacing; only what stands in the last column is broken.
    const std::string rest = wrapped(std::string_view(line).substr(column), column, width);
    all += line.substr(0, column) + rest.substr(std::min(column, rest.size()));
  }
  return all;
}

std::size_t terminal_columns(int descriptor) {
  winsize window{};
  return ::ioctl(descriptor, TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
}

std::size_t help_columns() {
  std::size_t columns = 0;
  if (const char* text = std::getenv("COLUMNS")) {
    const std::string_view digits = text;
    std::from_chars(digits.data(), digits.data() + digits.size(), columns);
  }
  if (columns == 0) columns = terminal_columns(STDOUT_FILENO);
  return columns == 0 ? 80 : std::clamp<std::size_t>(columns, 40, 100);
}

}  // namespace strata
