// Writes what shells complete the command line by: commands, options, their words, keys of the run
// config and files. Each function returns the whole text of a file that its shell loads.
#pragma once

#include <string>
#include <vector>

#include "command_line/command_tree.h"

namespace strata {

[[nodiscard]] std::string bash_completion(const CommandText& program,
                                          const std::vector<KeyText>& keys);
[[nodiscard]] std::string zsh_completion(const CommandText& program,
                                         const std::vector<KeyText>& keys);
[[nodiscard]] std::string fish_completion(const CommandText& program,
                                          const std::vector<KeyText>& keys);

}  // namespace strata
