// Numbers and texts as people read them, in progress lines, reports, messages and help.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace strata {

/// "12,345"
[[nodiscard]] std::string format_count(std::int64_t value);
/// "45s", "3m12s", "2h05m", "3d04h"
[[nodiscard]] std::string format_duration(double seconds);

/// The bytes of a user's own text that a message repeats at most.
inline constexpr std::size_t kMostShown = 80;
/// Returns UTF-8 text of at most `most` bytes; what is longer ends with "...".
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most = kMostShown);

/// Returns `text` with control characters but for tabs and line ends as "\x1b": a terminal would
/// obey those that a name or a damaged file holds.
[[nodiscard]] std::string printable(std::string_view text);

/// Returns the words of `text` in indented lines of up to `width` columns, where words are no
/// longer. Every line ends with a newline.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t indent, std::size_t width);
/// Returns `text` with every line that is longer than `width` broken between words. What is broken
/// off stands below the line's second column, if it has one, and below its beginning if not.
[[nodiscard]] std::string wrapped_lines(std::string_view text, std::size_t width);

/// Returns how many columns the terminal of a file descriptor has, 0 if it is none or does not say.
[[nodiscard]] std::size_t terminal_columns(int descriptor);
/// Returns how many columns help may use: what COLUMNS says, else the terminal of standard output,
/// else 80; from 40 to 100, since longer lines are hard to read.
[[nodiscard]] std::size_t help_columns();

}  // namespace strata
