// Compares two results. Rows belong together by their names. Differences are listed by key, so that
// a row that became faster because its config did is not taken for one that the program made
// faster.

#include "strata/benchmark/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace strata {

namespace {

/// Keys of the config that change no figure.
constexpr std::string_view kOutput = "run.output";

const RowRecord* row_named(const SuiteResults& results, const std::string& name) {
  const auto found = std::ranges::find(results.rows, name, &RowRecord::name);
  return found == results.rows.end() ? nullptr : &*found;
}

const std::string* value_at(const std::vector<FieldText>& fields, const std::string& path) {
  const auto found = std::ranges::find(fields, path, &FieldText::path);
  return found == fields.end() ? nullptr : &found->value;
}

/// Adds the fields whose values differ, and those that only one of them has.
void add_differences(const std::vector<FieldText>& before, const std::vector<FieldText>& after,
                     std::vector<Difference>& differences) {
  for (const FieldText& field : before) {
    const std::string* const other = value_at(after, field.path);
    if (field.path == kOutput || (other != nullptr && *other == field.value)) continue;
    differences.push_back({field.path, field.value, other == nullptr ? "-" : *other});
  }
  for (const FieldText& field : after) {
    if (field.path == kOutput || value_at(before, field.path) != nullptr) continue;
    differences.push_back({field.path, "-", field.value});
  }
}

/// Returns the noise of a ratio, if any of the two has more than one run.
std::optional<double> noise_of(double ratio, const RowFigures& before, const RowFigures& after) {
  if (!before.spread && !after.spread) return std::nullopt;
  const double a = before.spread ? *before.spread : *after.spread;
  const double b = after.spread ? *after.spread : *before.spread;
  return ratio * std::sqrt(a * a + b * b);
}

ComparedRow compare_rows(const RowRecord& a, const RowFigures& before, const RowRecord& b,
                         const RowFigures& after) {
  ComparedRow row{.name = a.name,
                  .before = before.middle.tokens_per_s,
                  .after = after.middle.tokens_per_s,
                  .ratio = after.middle.tokens_per_s / before.middle.tokens_per_s,
                  .noise = {},
                  .differences = {}};
  row.noise = noise_of(row.ratio, before, after);
  // The file of a single bench has no config: what the other one has alone tells nothing.
  if (!a.config.empty() && !b.config.empty()) add_differences(a.config, b.config, row.differences);
  add_differences(before.middle.facts, after.middle.facts, row.differences);
  return row;
}

}  // namespace

Change ComparedRow::change() const {
  if (!noise) return Change::kUnknown;
  if (std::abs(ratio - 1) <= *noise) return Change::kSame;
  return ratio > 1 ? Change::kFaster : Change::kSlower;
}

Comparison compare(const SuiteResults& before, const SuiteResults& after) {
  Comparison comparison;
  Provenance a = before.provenance, b = after.provenance;
  for (const std::string& path : differing_provenance(a, b)) {
    comparison.provenance.push_back(
        {path, field_text(*fields_of(a).find(path)), field_text(*fields_of(b).find(path))});
  }
  for (const RowRecord& row : before.rows) {
    const RowRecord* const other = row_named(after, row.name);
    if (other == nullptr) {
      comparison.only_before.push_back(row.name);
      continue;
    }
    const std::optional<RowFigures> first = row.figures(), second = other->figures();
    if (!first) {
      comparison.unmeasured.push_back(row.name);
    } else if (!second) {
      comparison.lost.push_back(row.name);
    } else {
      comparison.rows.push_back(compare_rows(row, *first, *other, *second));
    }
  }
  for (const RowRecord& row : after.rows) {
    if (row_named(before, row.name) == nullptr) comparison.only_after.push_back(row.name);
  }
  return comparison;
}

}  // namespace strata
