// Puts assignments of `--set` into the JSON document of a config. Values are JSON if they parse and
// texts if not, so that users need no quotes in their shell.

#include "base/assignment.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/text.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

/// Returns the type of the field at `path`, or nothing if there is no such field.
std::optional<FieldType> type_at(const FieldList& fields, std::string_view path) {
  const std::size_t dot = path.find('.');
  const Field* field = fields.find(path.substr(0, dot));
  if (field == nullptr) return std::nullopt;
  if (dot == path.npos) return field->type;
  if (field->type != FieldType::kSection) return std::nullopt;
  const bool absent = std::holds_alternative<std::monostate>(field->get());
  const auto type = type_at(field->section(), path.substr(dot + 1));
  if (absent) field->set({});
  return type;
}

Json assigned_value(std::string_view text, std::optional<FieldType> type) {
  Json json;
  try {
    json = parse_json<Json>(text);
  } catch (const Json::exception&) {
    return std::string(text);
  }
  // A file may be called 2024: a field for names takes a bare number as one.
  const bool bare = json.is_number() || json.is_boolean();
  const bool names = type == FieldType::kString || type == FieldType::kFiles;
  return names && bare ? Json(std::string(text)) : json;
}

/// Puts `value` at "a.b" in the document, making sections on the way.
void assign(std::string_view path, Json value, Json& document, ConfigProblems& problems) {
  Json* node = &document;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    if (node->is_null()) *node = Json::object();
    if (!node->is_object()) {
      problems.add(path, "cannot be set: " + std::string(path.substr(0, begin - 1)) +
                             " is not an object with keys");
      return;
    }
    node = &(*node)[std::string(path.substr(begin, end - begin))];
    begin = end + 1;
  }
  *node = std::move(value);
}

}  // namespace

void apply_assignment(const FieldList& fields, std::string_view assignment,
                      nlohmann::ordered_json& document, ConfigProblems& problems) {
  const std::size_t equals = assignment.find('=');
  const std::string_view path = assignment.substr(0, equals);
  if (equals == assignment.npos || path.empty()) {
    problems.add(assignment, "expected KEY=VALUE, such as run.steps=100");
    return;
  }
  const std::string_view value = assignment.substr(equals + 1);
  if (value.starts_with('=')) {
    problems.add(path,
                 "is set with \"==\"; did you mean " + shortened(path) + shortened(value) + "?");
    return;
  }
  if (std::count(path.begin(), path.end(), '.') >= kMostJsonLevels) {
    problems.add(path, "unknown key; no key has so many parts");
    return;
  }
  try {
    assign(path, assigned_value(value, type_at(fields, path)), document, problems);
  } catch (const ConfigError& e) {
    problems.add(path, e.what());
  }
}

}  // namespace strata
