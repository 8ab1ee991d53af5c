// Names of files as a shell takes them: messages that print a command to be pasted use it, and so
// does the line that says what to type next.
#pragma once

#include <filesystem>
#include <string>

namespace strata {

/// Returns a file name as a shell takes it for one word.
[[nodiscard]] std::string shell_word(const std::filesystem::path& file);

}  // namespace strata
