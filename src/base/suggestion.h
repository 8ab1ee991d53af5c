#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/fields.h"

namespace strata {

/// Appends the full paths of all fields, sections and what is in them included.
void collect_paths(const FieldList& fields, const std::string& prefix,
                   std::vector<std::string>& paths);

/// The valid path whose last key is nearest to that of `path` (the nearer section wins a tie), if
/// any is near enough to be meant.
[[nodiscard]] std::optional<std::string> nearest_path(std::string_view path,
                                                      const std::vector<std::string>& valid);

}  // namespace strata
