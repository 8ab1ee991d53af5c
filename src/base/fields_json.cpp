// The half of fields.h that needs JSON: reading with assignments on top, writing, and comparing.
// Together with assignment.cpp and file_sources_json.cpp it includes the JSON library on behalf of
// configs. The parser lets duplicate keys pass, so its events are watched for them; every problem
// but broken JSON is collected before anything is thrown.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/assignment.h"
#include "base/file_sources_json.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/json.h"
#include "strata/base/sample_prompt.h"
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

std::string expectation(const Field& field) {
  std::string text;
  switch (field.type) {
    case FieldType::kBool: text = "true or false"; break;
    case FieldType::kInteger: text = "an integer"; break;
    case FieldType::kNumber: text = "a number"; break;
    case FieldType::kString: text = "a string"; break;
    case FieldType::kStrings: text = "a list of strings or objects {\"messages\"}"; break;
    case FieldType::kPair: text = "a list of two numbers"; break;
    case FieldType::kNumbers: text = "a list of numbers"; break;
    case FieldType::kBytes: text = "a size such as \"24GiB\" or a number of bytes"; break;
    case FieldType::kFiles:
      text = "a path, a list of paths, or a list of objects {\"path\", \"weight\"}";
      break;
    case FieldType::kSection: text = "an object with keys"; break;
    case FieldType::kChoice:
      text = "one of";
      for (const std::string& name : field.choices) text += " \"" + name + "\"";
      break;
  }
  return field.optional ? text + " or null" : text;
}

std::optional<std::int64_t> to_integer(const Json& json) {
  if (json.is_number_unsigned()) {
    const auto value = json.get<std::uint64_t>();
    if (!std::in_range<std::int64_t>(value)) return std::nullopt;
    return static_cast<std::int64_t>(value);
  }
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) {  // 1e6 is an integer, too
    const double value = json.get<double>();
    if (std::trunc(value) == value && std::abs(value) < 0x1p53) {
      return static_cast<std::int64_t>(value);
    }
  }
  return std::nullopt;
}

std::optional<FieldValue> to_bytes(const Json& json) {
  if (json.is_string()) {
    try {
      return ByteSize{parse_bytes(json.get_ref<const std::string&>())};
    } catch (const ConfigError&) {
      return std::nullopt;  // reported with the key, as every other wrong value
    }
  }
  const std::optional<std::int64_t> bytes = to_integer(json);
  if (!bytes || *bytes < 0) return std::nullopt;
  return ByteSize{static_cast<std::size_t>(*bytes)};
}

/// Returns the strings of a list, in which a conversation stands by its JSON.
std::optional<std::vector<std::string>> to_strings(const Json& json) {
  if (!json.is_array()) return std::nullopt;
  std::vector<std::string> strings;
  for (const Json& item : json) {
    const bool talks = item.is_object() && item.contains("messages");
    if (!item.is_string() && !talks) return std::nullopt;
    strings.push_back(talks ? json_text(item) : item.get<std::string>());
  }
  return strings;
}

Json strings_to_json(const std::vector<std::string>& strings) {
  Json list = Json::array();
  for (const std::string& item : strings) {
    list.push_back(is_conversation(item) ? parse_json<Json>(item) : Json(item));
  }
  return list;
}

/// Returns the value of a field that is no section, or nothing if `json` is not of the field's
/// type.
std::optional<FieldValue> to_value(const Field& field, const Json& json) {
  if (json.is_null()) return field.optional ? std::optional(FieldValue()) : std::nullopt;
  const auto is_number = [](const Json& item) { return item.is_number(); };
  switch (field.type) {
    case FieldType::kBool:
      if (json.is_boolean()) return json.get<bool>();
      break;
    case FieldType::kInteger:
      if (const auto value = to_integer(json)) return *value;
      break;
    case FieldType::kNumber:
      if (json.is_number()) return json.get<double>();
      break;
    case FieldType::kString:
      if (auto text = name_of_json(json)) return *std::move(text);
      break;
    case FieldType::kStrings:
      if (auto strings = to_strings(json)) return *std::move(strings);
      break;
    case FieldType::kPair:
      if (json.is_array() && json.size() == 2 && std::all_of(json.begin(), json.end(), is_number)) {
        return std::array<double, 2>{json[0].get<double>(), json[1].get<double>()};
      }
      break;
    case FieldType::kNumbers:
      if (json.is_array() && std::all_of(json.begin(), json.end(), is_number)) {
        return json.get<std::vector<double>>();
      }
      break;
    case FieldType::kBytes: return to_bytes(json);
    case FieldType::kFiles:
      if (auto sources = sources_of_json(json)) return *std::move(sources);
      break;
    case FieldType::kChoice:
      if (json.is_string() && std::count(field.choices.begin(), field.choices.end(),
                                         json.get_ref<const std::string&>()) != 0) {
        return json.get<std::string>();
      }
      break;
    case FieldType::kSection: break;
  }
  return std::nullopt;
}

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
    } else if (const std::optional<FieldValue> value = to_value(field, json)) {
      field.set(*value);
    } else {
      problems_.add(path, "expected " + expectation(field) + ", found " + shown(json));
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

/// Writes a size with the largest unit that keeps the number exact.
Json bytes_to_json(std::size_t bytes) {
  if (bytes == 0) return bytes;
  if (bytes % kGiB == 0) return std::to_string(bytes / kGiB) + "GiB";
  if (bytes % kMiB == 0) return std::to_string(bytes / kMiB) + "MiB";
  return bytes;
}

/// Writes whole numbers as integers, because other programs read a list of flags or sizes as such.
Json numbers_to_json(const std::vector<double>& numbers) {
  Json list = Json::array();
  for (const double number : numbers) {
    const Json exact = number;
    const auto whole = to_integer(exact);
    list.push_back(whole ? Json(*whole) : exact);
  }
  return list;
}

Json to_json(const FieldValue& value) {
  return std::visit(
      [](const auto& v) -> Json {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return nullptr;
        } else if constexpr (std::is_same_v<T, ByteSize>) {
          return bytes_to_json(v.bytes);
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          return strings_to_json(v);
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          return numbers_to_json(v);
        } else if constexpr (std::is_same_v<T, FileSources>) {
          return json_of_sources(v);
        } else {
          return v;
        }
      },
      value);
}

Json to_json(const FieldList& fields) {
  Json json = Json::object();
  for (const Field& field : fields.all()) {
    const FieldValue value = field.get();
    const bool present_section =
        field.type == FieldType::kSection && !std::holds_alternative<std::monostate>(value);
    json[field.key] = present_section ? to_json(field.section()) : to_json(value);
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

}  // namespace

namespace {

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

std::string field_text(const Field& field) { return json_text(to_json(field.get())); }

std::string write_fields(const FieldList& fields) { return json_text(to_json(fields), 2) + '\n'; }

std::vector<std::string> differing_fields(const FieldList& a, const FieldList& b) {
  std::vector<std::string> paths;
  collect_differences(to_json(a), to_json(b), "", paths);
  return paths;
}

}  // namespace strata
