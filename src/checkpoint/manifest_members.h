// Reads the members of a manifest's JSON objects: each once, each of its type, none unknown.

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/manifest_rules.h"
#include "strata/base/json.h"
#include "strata/base/text.h"

namespace strata {

/// Remembers a key that occurs twice in one object, which the parser itself lets pass.
class DuplicateKey {
 public:
  template <class AnyJson>
  void operator()(nlohmann::json::parse_event_t event, const AnyJson& parsed) {
    if (event == nlohmann::json::parse_event_t::object_start) {
      open_.emplace_back();
    } else if (event == nlohmann::json::parse_event_t::object_end) {
      open_.pop_back();
    } else if (event == nlohmann::json::parse_event_t::key) {
      const auto& key = parsed.template get_ref<const std::string&>();
      if (!open_.back().insert(key).second) refuse_manifest(key, "is given twice in one object");
    }
  }

 private:
  std::vector<std::set<std::string>> open_;
};

/// Takes the members of one JSON object, each once. `where` is what messages name it, and empty for
/// the outermost.
class Members {
 public:
  Members(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {
    if (!object.is_object())
      refuse_manifest(where_.empty() ? "text" : where_, "is not a JSON object");
  }

  [[nodiscard]] std::string path_of(std::string_view key) const {
    return (where_.empty() ? "" : where_ + ".") + std::string(key);
  }
  const nlohmann::json& take(const char* key) {
    const auto found = object_.find(key);
    if (found == object_.end()) refuse_manifest(path_of(key), "is missing");
    taken_.insert(key);
    return *found;
  }
  /// Takes an integer that is not negative.
  std::int64_t count(const char* key) {
    const nlohmann::json& value = take(key);
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMost) {
      refuse_manifest(path_of(key),
                      "expected an integer from 0 to 2^63 - 1, found " + shown(value));
    }
    return value.get<std::int64_t>();
  }
  std::optional<std::int64_t> count_or_null(const char* key) {
    const auto found = object_.find(key);
    if (found == object_.end() || !found->is_null()) return count(key);
    static_cast<void>(take(key));
    return std::nullopt;
  }
  std::uint64_t bytes(const char* key) { return static_cast<std::uint64_t>(count(key)); }
  bool boolean(const char* key) {
    const nlohmann::json& value = take(key);
    if (!value.is_boolean())
      refuse_manifest(path_of(key), "expected true or false, found " + shown(value));
    return value.get<bool>();
  }
  /// Takes a number, or null, which stands for one that JSON does not have.
  double number(const char* key) {
    const nlohmann::json& value = take(key);
    if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (!value.is_number()) {
      refuse_manifest(path_of(key), "expected a number or null, found " + shown(value));
    }
    return value.get<double>();
  }
  const std::string& text(const char* key) {
    const nlohmann::json& value = take(key);
    if (!value.is_string()) refuse_manifest(path_of(key), "expected a text, found " + shown(value));
    return value.get_ref<const std::string&>();
  }
  const nlohmann::json& list(const char* key) {
    const nlohmann::json& value = take(key);
    if (!value.is_array()) refuse_manifest(path_of(key), "expected a list, found " + shown(value));
    return value;
  }
  /// Takes an object and returns its text.
  std::string object(const char* key) {
    const nlohmann::json& value = take(key);
    if (!value.is_object())
      refuse_manifest(path_of(key), "expected an object, found " + shown(value));
    return json_text(value, 2);
  }
  DType dtype(const char* key, std::span<const DType> valid) {
    const std::string& name = text(key);
    for (const DType type : valid) {
      if (name_of(type) == name) return type;
    }
    std::string names;
    for (std::size_t i = 0; i < valid.size(); ++i) {
      if (i > 0) names += i + 1 < valid.size() ? ", " : " or ";
      names += name_of(valid[i]);
    }
    refuse_manifest(path_of(key),
                    "expected " + names + ", found \"" + shortened(printable_name(name)) + '"');
  }
  std::optional<DType> dtype_or_null(const char* key, std::span<const DType> valid) {
    const auto found = object_.find(key);
    if (found == object_.end() || !found->is_null()) return dtype(key, valid);
    static_cast<void>(take(key));
    return std::nullopt;
  }
  /// Throws if there is a member that was not taken.
  void finish() const {
    for (const auto& [key, value] : object_.items()) {
      if (!taken_.contains(key)) refuse_manifest(path_of(key), "is no key of a manifest");
    }
  }

 private:
  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace strata
