// Compares keys by edit distance. The last key decides first and the whole path second, so a right
// key in a wrong section is found as well as a misspelt one.

#include "strata/base/suggestion.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace strata {
namespace {

/// Returns the Levenshtein distance, computed one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitute, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string_view last_key(std::string_view path) { return path.substr(path.rfind('.') + 1); }

}  // namespace

void collect_paths(const FieldList& fields, const std::string& prefix,
                   std::vector<std::string>& paths) {
  for (const Field& field : fields.all()) {
    paths.push_back(prefix + field.key);
    if (field.type != FieldType::kSection) continue;
    const bool absent = std::holds_alternative<std::monostate>(field.get());
    collect_paths(field.section(), prefix + field.key + '.', paths);
    if (absent) field.set({});
  }
}

std::optional<std::string> nearest_path(std::string_view path,
                                        const std::vector<std::string>& valid) {
  constexpr std::size_t kLongest = 256;  // no misspelling; and the comparison takes its time
  if (path.size() > kLongest) return std::nullopt;
  const std::size_t tolerance = std::max<std::size_t>(1, (last_key(path).size() + 1) / 3);
  std::optional<std::string> best;
  std::pair<std::size_t, std::size_t> best_distance{tolerance, path.size() + 64};
  for (const std::string& candidate : valid) {
    const std::pair distance{edit_distance(last_key(path), last_key(candidate)),
                             edit_distance(path, candidate)};
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace strata
