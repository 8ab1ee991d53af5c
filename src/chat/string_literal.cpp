// Replaces the escapes of string literals. Those that Python does not know stay as they are,
// backslash included.

#include "chat/string_literal.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>

#include "chat/lexer.h"
#include "chat/unicode.h"

namespace strata::chat {

namespace {

struct Code {
  std::uint32_t value = 0;
  std::size_t digits = 0;
};

/// Reads up to `most` digits at the beginning of a text.
Code read_code(std::string_view text, std::size_t most, int base) {
  Code code;
  const char* const end = text.data() + std::min(most, text.size());
  code.digits = static_cast<std::size_t>(std::from_chars(text.data(), end, code.value, base).ptr -
                                         text.data());
  return code;
}

/// Returns the digits that an escape wants: 2 for \x, 0 if it has none.
std::size_t hex_digits(char escape) {
  return escape == 'x' ? 2 : escape == 'u' ? 4 : escape == 'U' ? 8 : 0;
}

/// Returns what a letter behind a backslash stands for; a NUL if for nothing.
char simple_escape(char letter) {
  constexpr std::string_view kLetters = "\\'\"abfnrtv";
  constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  const std::size_t found = kLetters.find(letter);
  return found == kLetters.npos ? '\0' : kMeanings[found];
}

/// Appends the escape at the beginning of `rest`, whose backslash is left out; returns its length.
std::size_t append_escape(std::string& result, std::string_view rest, int line) {
  const char letter = rest.front();
  if (const char meaning = simple_escape(letter); meaning != '\0') {
    result += meaning;
    return 1;
  }
  if (letter == '\n') return 1;
  if (letter == 'N')
    throw SyntaxError(line, "\\N in a string is not supported; write the character");
  const std::size_t wanted = hex_digits(letter);
  const bool octal = letter >= '0' && letter <= '7';
  if (wanted == 0 && !octal) {
    result += '\\';
    return 0;
  }
  const Code code = octal ? read_code(rest, 3, 8) : read_code(rest.substr(1), wanted, 16);
  const bool surrogate = code.value >= 0xD800 && code.value < 0xE000;
  if ((!octal && code.digits < wanted) || surrogate || code.value > 0x10FFFF) {
    throw SyntaxError(line, "\\" + std::string(1, letter) + " in a string names no character");
  }
  append_utf8(result, code.value);
  return code.digits + (octal ? 0 : 1);
}

}  // namespace

std::string unescaped(std::string_view literal, int line) {
  std::string result;
  for (std::size_t at = 0; at < literal.size(); ++at) {
    if (literal[at] != '\\' || at + 1 == literal.size()) {
      result += literal[at];
    } else {
      at += append_escape(result, literal.substr(at + 1), line);
    }
  }
  return result;
}

}  // namespace strata::chat
