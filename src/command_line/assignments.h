// Changes to a config on the command line, which the commands about a run have in common.

#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace strata {

/// Declares --set, which adds to `sets`.
CLI::Option* add_assignments(CLI::App& command, std::vector<std::string>& sets);
/// Says which assignments a later one of the same key replaces.
void warn_of_replaced(const std::vector<std::string>& sets);

}  // namespace strata
