// Writes the manual: strata(1), a page for each command, and strata-config(5) with the keys of the
// run config, in the macros of man(7).
#pragma once

#include <string>
#include <vector>

#include "command_line/command_tree.h"

namespace strata {

/// A page and the name of its file, such as "strata-train.1".
struct ManPage {
  std::string file;
  std::string text;
};

/// Returns all pages of the manual. `version` names the program in their last lines.
[[nodiscard]] std::vector<ManPage> man_pages(const CommandText& program,
                                             const std::string& version);

}  // namespace strata
