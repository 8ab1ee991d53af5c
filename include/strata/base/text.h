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

/// Returns a text of several lines with all written out that a terminal would obey or show in
/// another place than where it stands: control characters but for tabs and line ends, and bytes
/// that are no UTF-8, as "\x1b"; later control characters, marks of direction and separators of
/// lines as "\u009b", which is how JSON may have them too.
[[nodiscard]] std::string printable(std::string_view text);
/// Returns a name, an id or a path as part of a line: printable, with tabs as "\t" and line ends as
/// "\n", so that nobody's name passes for a line of the program.
[[nodiscard]] std::string printable_name(std::string_view text);
/// Returns a message printable and with its second and later lines indented, if they are not: what
/// stands at the beginning of a line is the program's.
[[nodiscard]] std::string printable_message(std::string_view text);
/// Returns `text` for a file: printable if the file is a terminal, else as it is.
[[nodiscard]] std::string printable_for(int descriptor, std::string_view text);

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
