// What the template language has to know of Unicode: strings are indexed by code points, and
// strip() and split() take white space of any script. Bytes that are no UTF-8 count as a character
// each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace strata::chat {

/// A code point and how many bytes it takes.
struct CodePoint {
  std::uint32_t value = 0;
  std::size_t bytes = 1;
};

/// Returns the code point that begins at byte `at`, which is below text.size().
[[nodiscard]] CodePoint code_point_at(std::string_view text, std::size_t at);
/// Returns the code point that ends before byte `end`, which is above 0.
[[nodiscard]] CodePoint code_point_before(std::string_view text, std::size_t end);
/// Returns how many code points a text has.
[[nodiscard]] std::size_t count_code_points(std::string_view text);
/// Returns the byte at which the code point of a number from 0 begins; the text's size behind them.
[[nodiscard]] std::size_t code_point_offset(std::string_view text, std::size_t number);
/// Returns the first byte that is no UTF-8, or the text's size if all of it is.
[[nodiscard]] std::size_t valid_utf8_prefix(std::string_view text);
/// Appends a code point as UTF-8.
void append_utf8(std::string& text, std::uint32_t code_point);

/// Says whether Python's str.isspace() takes a code point for white space.
[[nodiscard]] bool is_space(std::uint32_t code_point);
/// Returns the first byte from `begin` on that is no white space, or `end`.
[[nodiscard]] std::size_t skip_space(std::string_view text, std::size_t begin, std::size_t end);
/// Returns the byte behind the last one of [begin, end) that is no white space, or `begin`.
[[nodiscard]] std::size_t skip_space_back(std::string_view text, std::size_t begin,
                                          std::size_t end);

/// Says whether a code point may begin a name, or stand in one, as in Python's identifiers.
[[nodiscard]] bool begins_name(std::uint32_t code_point);
[[nodiscard]] bool continues_name(std::uint32_t code_point);
/// Says whether repr() of Python writes a code point as it is.
[[nodiscard]] bool is_printable(std::uint32_t code_point);
/// Says whether str.isdigit() takes a code point for a digit.
[[nodiscard]] bool is_digit(std::uint32_t code_point);

/// Says whether a code point beyond ASCII belongs to a script that has capitals.
[[nodiscard]] bool in_cased_script(std::uint32_t code_point);

}  // namespace strata::chat
