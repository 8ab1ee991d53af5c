// Writes the differences of configs as assignments. Texts go without their quotes: --set reads what
// is no JSON as a text.

#include "strata/config/assignments.h"

#include <algorithm>

#include "strata/base/error.h"
#include "strata/base/fields.h"

namespace strata {

std::vector<std::string> assignments(const RunConfig& from, const RunConfig& to) {
  std::vector<std::string> sets;
  const std::vector<std::string> keys = differing_fields(from, to);
  for (const FieldText& field : field_texts(to)) {
    if (std::ranges::find(keys, field.path) == keys.end()) continue;
    const bool is_text = field.value.starts_with('"');
    sets.push_back(field.path + "=" +
                   (is_text ? field.value.substr(1, field.value.size() - 2) : field.value));
  }
  return sets;
}

std::optional<RunConfig> with_assignments(const RunConfig& config,
                                          const std::vector<std::string>& sets) {
  try {
    RunConfig changed = config;
    read_fields(changed, "{}", "a change", sets);
    changed.validate("a change");
    return changed;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

bool assigns(std::span<const std::string> sets, std::string_view key, std::string_view source) {
  RunConfig any;
  const std::vector<std::string> given = given_paths(fields_of(any), "{}", source, sets);
  return std::ranges::find(given, key) != given.end();
}

}  // namespace strata
