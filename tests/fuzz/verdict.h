// Says whether a case ended as it may: with a documented exit code, in time, with a text that a
// person understands, and with no files but those that it was asked for.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "fuzz/cases.h"
#include "fuzz/child.h"

namespace strata::fuzz {

/// Sanitizers end a process with this code.
inline constexpr int kSanitizerCode = 99;

/// The files below a folder, by name, with what tells whether one was replaced or changed.
using Listing = std::map<std::string, std::string>;
[[nodiscard]] Listing list(const std::filesystem::path& folder);

/// Returns what is wrong with how a case ended, or nothing. `before` and `after` list its folder.
[[nodiscard]] std::string judge(const Case& c, const std::vector<Key>& keys, const Ending& ending,
                                const Listing& before, const Listing& after);

}  // namespace strata::fuzz
