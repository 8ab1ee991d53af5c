// The last line of a command that made something: what its user will probably type next. It goes to
// the log, since results on standard output are for programs, too.
#pragma once

#include <filesystem>
#include <string>

#include "strata/base/shell_word.h"

namespace strata {

/// Logs "next     strata generate runs/first --prompt TEXT".
void say_next(const std::string& commands);

/// Returns how a model is tried out whose small files lie in `folder`: "strata chat MODEL" if it
/// has a chat template, else "strata generate MODEL --prompt TEXT".
[[nodiscard]] std::string trying_out(const std::filesystem::path& model,
                                     const std::filesystem::path& folder);

}  // namespace strata
