// A line of JSON that holds one record: an object whose members are asked for by name, with errors
// that say where it stands, which member is wrong, and what is expected.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/json.h"

namespace strata {

/// Members that are absent or null are left as they were. Everything throws ConfigError that begins
/// with the place.
class JsonRecord {
 public:
  using Json = nlohmann::ordered_json;

  /// `where` is the place, "prompts.jsonl:3".
  JsonRecord(const std::string& json, std::string where) : where_(std::move(where)) {
    try {
      json_ = parse_json<Json>(json);
    } catch (const Json::exception& error) {
      throw ConfigError(where_ + ": is not JSON: " + json_problem(error));
    } catch (const ConfigError& error) {
      throw ConfigError(where_ + ": " + error.what());
    }
    if (!json_.is_object())
      throw ConfigError(where_ + ": a record is an object, not " + shown(json_));
  }

  [[nodiscard]] const Json* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  [[noreturn]] void fail(const char* key, const std::string& wanted) const {
    throw ConfigError(where_ + ": " + key + " is " + shown(*find(key)) + ", and " + wanted +
                      " is expected");
  }
  void read(const char* key, double& value) const {
    const Json* const found = find(key);
    if (found == nullptr) return;
    if (!found->is_number()) fail(key, "a number");
    value = found->get<double>();
  }
  void read(const char* key, std::int64_t& value) const {
    const Json* const found = find(key);
    if (found == nullptr) return;
    const bool fits = found->is_number_integer() &&
                      (!found->is_number_unsigned() ||
                       found->get<std::uint64_t>() <=
                           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    if (!fits) fail(key, "a whole number");
    value = found->get<std::int64_t>();
  }
  void read(const char* key, std::vector<std::string>& texts) const {
    const Json* const found = find(key);
    if (found == nullptr) return;
    texts.clear();
    for (const Json& text : found->is_array() ? *found : Json::array({*found})) {
      if (!text.is_string()) fail(key, "a text or a list of texts");
      texts.push_back(text.get<std::string>());
    }
  }
  [[nodiscard]] std::string id(std::int64_t line) const {
    const Json* const found = find("id");
    if (found == nullptr) return std::to_string(line);
    if (found->is_string()) return found->get<std::string>();
    if (!found->is_number_integer()) fail("id", "a text or a whole number");
    return found->dump();
  }
  [[nodiscard]] std::vector<std::int32_t> tokens() const {
    const Json& found = *find("tokens");
    if (!found.is_array()) fail("tokens", "a list of ids");
    std::vector<std::int32_t> ids;
    for (const Json& id : found) {
      if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
        fail("tokens", "a list of ids");
      }
      ids.push_back(id.get<std::int32_t>());
    }
    return ids;
  }
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  std::string where_;
  Json json_;
};

}  // namespace strata
