// The last line of a command that made something: what its user will probably type next. It goes to
// the log, since results on standard output are for programs, too.
#pragma once

#include <filesystem>
#include <string>

namespace strata {

/// Logs "next     strata generate runs/first --prompt TEXT".
void say_next(const std::string& commands);

/// Returns a file name as a shell takes it for one word.
[[nodiscard]] std::string shell_word(const std::filesystem::path& file);

}  // namespace strata
