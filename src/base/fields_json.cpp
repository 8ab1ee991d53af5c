// The half of fields.h that needs JSON: reading with assignments on top, writing, and comparing.
// Together with assignment.cpp, field_values_json.cpp and file_sources_json.cpp it includes the
// JSON library on behalf of configs. The parser lets duplicate keys pass, so its events are watched
// for them; every problem but broken JSON is collected before anything is thrown.

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/assignment.h"
#include "base/field_values_json.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/json.h"
#include "strata/base/suggestion.h"
#include "strata/base/text.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

// ---- JSON text to a document --------------------------------------------------------------------

/// Finds keys that occur twice in one object, which the parser itself lets pass.
class DuplicateKeys {
 public:
  explicit DuplicateKeys(ConfigProblems& problems) : problems_(problems) {}

  void operator()(Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      objects_.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      objects_.pop_back();
    } else if (event == Json::parse_event_t::key) {
      Object& object = objects_.back();
      object.current = parsed.get<std::string>();
      if (!object.seen.insert(object.current).second) problems_.add(path(), "given twice");
    }
  }

 private:
  struct Object {
    std::string current;
    std::set<std::string> seen;
  };
  std::string path() const {
    std::string text;
    for (const Object& object : objects_) text += (text.empty() ? "" : ".") + object.current;
    return text;
  }

  ConfigProblems& problems_;
  std::vector<Object> objects_;
};

Json parse_document(std::string_view text, std::string_view source, ConfigProblems& problems) {
  try {
    DuplicateKeys duplicates(problems);
    return parse_json<Json>(text, JsonComments::kIgnore, duplicates);
  } catch (const Json::exception& e) {
    throw ConfigError(std::string(source) + ": not valid JSON: " + json_problem(e));
  } catch (const ConfigError& e) {
    throw ConfigError(std::string(source) + ": " + e.what());
  }
}

// ---- a document into fields ---------------------------------------------------------------------

/// Sets fields from a document and collects unknown keys and wrong types as problems.
class Reader {
 public:
  /// `root` must outlive the reader.
  Reader(const FieldList& root, ConfigProblems& problems) : root_(root), problems_(problems) {
    collect_paths(root, "", valid_paths_);
  }

  void read(const FieldList& fields, const Json& json, const std::string& prefix) {
    for (const auto& [key, value] : json.items()) {
      const std::string path = prefix + key;
      if (const Field* field = fields.find(key)) {
        read_field(*field, value, path);
      } else {
        problems_.add(path, unknown_key(path, fields));
      }
    }
  }

 private:
  void read_field(const Field& field, const Json& json, const std::string& path) {
    if (field.type == FieldType::kSection && json.is_object()) {
      read(field.section(), json, path + '.');
    } else if (const std::optional<FieldValue> value = value_of_json(field, json)) {
      field.set(*value);
    } else {
      problems_.add(path, "expected " + expectation_of(field) + ", found " + shown(json));
    }
  }

  std::string unknown_key(const std::string& path, const FieldList& siblings) {
    constexpr int kMostHelped = 50;  // as many as are shown: a suggestion takes its time
    if (++unknown_keys_ > kMostHelped) return "unknown key";
    const std::string key = path.substr(path.rfind('.') + 1);
    for (const RetiredKey& retired : siblings.retired()) {
      if (key == retired.key) return "this key is gone: " + retired.remedy;
    }
    if (const ForeignName* foreign = root_.find_foreign(key)) {
      if (foreign->key.empty()) return "unknown key; " + foreign->remark;
      return "unknown key; here it is " + foreign->key +
             (foreign->remark.empty() ? "" : ", " + foreign->remark);
    }
    if (const auto nearest = nearest_path(path, valid_paths_)) {
      return "unknown key; did you mean " + *nearest + "?";
    }
    std::string text = "unknown key; valid here:";
    for (const Field& field : siblings.all()) text += ' ' + field.key;
    return text;
  }

  const FieldList& root_;
  ConfigProblems& problems_;
  std::vector<std::string> valid_paths_;
  int unknown_keys_ = 0;
};

// ---- fields to JSON -----------------------------------------------------------------------------

Json to_json(const FieldList& fields) {
  Json json = Json::object();
  for (const Field& field : fields.all()) {
    const FieldValue value = field.get();
    const bool present_section =
        field.type == FieldType::kSection && !std::holds_alternative<std::monostate>(value);
    json[field.key] = present_section ? to_json(field.section()) : json_of_value(value);
  }
  return json;
}

void collect_given(const Json& json, const std::string& path, std::vector<std::string>& paths) {
  if (!json.is_object()) return paths.push_back(path);
  for (const auto& [key, value] : json.items()) {
    collect_given(value, path.empty() ? key : path + '.' + key, paths);
  }
}

void collect_differences(const Json& a, const Json& b, const std::string& path,
                         std::vector<std::string>& paths) {
  if (!a.is_object() || !b.is_object()) {
    if (a != b) paths.push_back(path);
    return;
  }
  for (const auto& [key, value] : a.items()) {
    collect_differences(value, b.at(key), path.empty() ? key : path + '.' + key, paths);
  }
}

/// Returns the document of a text with assignments on top.
Json assigned_document(const FieldList& fields, std::string_view json, std::string_view source,
                       std::span<const std::string> sets, ConfigProblems& problems) {
  Json document = parse_document(json, source, problems);
  if (!document.is_object()) {
    throw ConfigError(std::string(source) + ": expected a JSON object at the top");
  }
  document.erase("$schema");  // is for editors
  for (const std::string& assignment : sets) {
    apply_assignment(fields, assignment, document, problems);
  }
  return document;
}

}  // namespace

void read_fields(const FieldList& fields, std::string_view json, std::string_view source,
                 std::span<const std::string> sets) {
  ConfigProblems problems;
  const Json document = assigned_document(fields, json, source, sets, problems);
  Reader(fields, problems).read(fields, document, "");
  problems.throw_if_any(source);
}

std::vector<std::string> given_paths(const FieldList& fields, std::string_view json,
                                     std::string_view source, std::span<const std::string> sets) {
  ConfigProblems problems;
  std::vector<std::string> paths;
  collect_given(assigned_document(fields, json, source, sets, problems), "", paths);
  problems.throw_if_any(source);
  return paths;
}

std::string field_text(const Field& field) { return json_text(json_of_value(field.get())); }

std::string write_fields(const FieldList& fields) { return json_text(to_json(fields), 2) + '\n'; }

std::vector<std::string> differing_fields(const FieldList& a, const FieldList& b) {
  std::vector<std::string> paths;
  collect_differences(to_json(a), to_json(b), "", paths);
  return paths;
}

}  // namespace strata
