// Writes numbers and texts as people read them.

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
#include <utility>

#include "strata/base/utf8.h"

namespace strata {

namespace {

template <class... Arguments>
std::string print(const char* format, Arguments... arguments) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, arguments...);
  return text.data();
}

/// The codes of characters that a terminal obeys, or that change where others are shown, first and
/// last of each range: controls of 7 and 8 bits, marks of direction, separators of lines. Tabs and
/// line ends are none.
constexpr std::array<std::pair<unsigned, unsigned>, 8> kObeyed{{{0x00, 0x08},
                                                                {0x0b, 0x1f},
                                                                {0x7f, 0x9f},
                                                                {0x061c, 0x061c},
                                                                {0x200e, 0x200f},
                                                                {0x2028, 0x202e},
                                                                {0x2066, 0x2069},
                                                                {0xfff9, 0xfffb}}};

/// Returns the code of the character that valid UTF-8 begins with, and how many bytes it has.
std::pair<unsigned, std::size_t> first_character(std::string_view text) {
  const unsigned lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  unsigned code = length == 1 ? lead : lead & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fU);
  }
  return {code, length};
}

/// Adds valid UTF-8 with what is obeyed written out.
void add_printable(std::string_view text, std::string& shown) {
  constexpr auto kPlain = [](char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\t'; };
  while (!text.empty()) {
    const std::size_t plain =
        static_cast<std::size_t>(std::ranges::find_if_not(text, kPlain) - text.begin());
    shown += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) return;
    const auto [code, length] = first_character(text);
    const bool obeyed = std::ranges::any_of(kObeyed, [code = code](const auto& range) {
      return code >= range.first && code <= range.second;
    });
    if (obeyed) {
      shown += print(code < ' ' ? "\\x%02x" : "\\u%04x", code);
    } else {
      shown += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
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
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_bytes(text);
    add_printable(text.substr(0, valid), shown);
    text.remove_prefix(valid);
    if (text.empty()) break;
    shown += print("\\x%02x", static_cast<unsigned char>(text.front()));
    text.remove_prefix(1);
  }
  return shown;
}

std::string printable_name(std::string_view text) {
  std::string name;
  for (const char c : printable(text)) {
    if (c == '\n') {
      name += "\\n";
    } else if (c == '\t') {
      name += "\\t";
    } else {
      name += c;
    }
  }
  return name;
}

std::string printable_message(std::string_view text) {
  std::string message = printable(text);
  for (std::size_t at = message.find('\n'); at != message.npos; at = message.find('\n', at + 1)) {
    const char first = at + 1 < message.size() ? message[at + 1] : '\n';
    if (first != '\n' && first != ' ' && first != '\t') message.insert(at + 1, "  ");
  }
  return message;
}

std::string printable_for(int descriptor, std::string_view text) {
  return ::isatty(descriptor) != 0 ? printable(text) : std::string(text);
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
