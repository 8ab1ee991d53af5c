// Converts values of fields from and to JSON, each type by itself.

#include "base/field_values_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/file_sources_json.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/sample_prompt.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

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

}  // namespace

std::string expectation_of(const Field& field) {
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

std::optional<FieldValue> value_of_json(const Field& field, const Json& json) {
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

Json json_of_value(const FieldValue& value) {
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

}  // namespace strata
