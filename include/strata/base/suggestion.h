// Finds the key, command or option that a user most likely meant by an unknown one. Reading a
// config and the command line use it for their messages; it looks at names only and never throws.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/fields.h"

namespace strata {

/// Appends the full paths of all fields to `paths`, sections and what is in them included. `prefix`
/// stands before each, "" or "section.". Sections that are absent are listed too and stay absent.
void collect_paths(const FieldList& fields, const std::string& prefix,
                   std::vector<std::string>& paths);

/// Returns the valid path whose last key is nearest to that of `path` (the nearer section wins a
/// tie), or nothing if none is near enough to be meant.
[[nodiscard]] std::optional<std::string> nearest_path(std::string_view path,
                                                      const std::vector<std::string>& valid);

}  // namespace strata
