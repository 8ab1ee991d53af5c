// The program's log, a thin cover over spdlog: info, warn, error and debug take a format string of
// fmt and may be called by any thread. A command calls configure() once; before that, lines go to
// spdlog's default output. Rank 0 says info, warnings and errors on standard error and writes them
// and debug to its file, other ranks only say warnings and errors. spdlog and the making of texts
// stay in log.cpp: in each source that logs they would take longer to compile than the rest of it.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "strata/base/function_ref.h"

namespace strata::log {

/// Sets where lines go and how they look; called once at start-up, before other threads log. Lines
/// go to standard error and, if `file` is not empty, are also appended to that file, which has
/// debug lines as well. Ranks other than 0 log warnings and errors only, each with its rank. Throws
/// IoError if the file cannot be opened, or is a link; if it cannot be written later, the first
/// time is reported on standard error and the program goes on.
void configure(int rank, int ranks, const std::string& file);

/// Shows `text` below the log if standard error is a terminal and this is rank 0, cut to the width
/// of the terminal, in the place of what was shown there before. Log lines go above it. An empty
/// text takes it away. Any thread may call it.
void live(std::string_view text);
/// Returns whether live() shows anything.
[[nodiscard]] bool shows_live();
/// Calls `print`, which writes lines to standard output, while what live() shows is not there: both
/// may be one terminal. Other threads do not log meanwhile, and `print` must not.
void print_above(FunctionRef<void()> print);

enum class Level : unsigned char { kDebug, kInfo, kWarning, kError };

/// Logs what `format` makes of `values`. A line that cannot be made or written is reported once on
/// standard error, and the program goes on: it throws nothing.
void write(Level level, fmt::string_view format, fmt::format_args values);

template <class... Values>
void debug(fmt::format_string<Values...> format, Values&&... values) {
  write(Level::kDebug, format, fmt::make_format_args(values...));
}
template <class... Values>
void info(fmt::format_string<Values...> format, Values&&... values) {
  write(Level::kInfo, format, fmt::make_format_args(values...));
}
template <class... Values>
void warn(fmt::format_string<Values...> format, Values&&... values) {
  write(Level::kWarning, format, fmt::make_format_args(values...));
}
template <class... Values>
void error(fmt::format_string<Values...> format, Values&&... values) {
  write(Level::kError, format, fmt::make_format_args(values...));
}

}  // namespace strata::log
