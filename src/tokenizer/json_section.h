// A part of a tokenizer's JSON file that knows where it stands, so that everything which is wrong
// or not supported is named by file and JSON path.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/text.h"
#include "tokenizer/text_budget.h"

namespace strata {

class JsonSection {
 public:
  JsonSection(const nlohmann::json& value, std::string place)
      : value_(&value), place_(std::move(place)) {}

  [[nodiscard]] const nlohmann::json& value() const { return *value_; }
  [[nodiscard]] bool is_null() const { return value_->is_null(); }
  /// Returns where the section stands: "$.normalizer.normalizers[2]".
  [[nodiscard]] const std::string& place() const { return place_; }

  /// Throws ConfigError: "<file>: <path>: <problem>".
  [[noreturn]] void fail(const std::string& problem) const {
    throw ConfigError(printable_name(place_) + ": " + problem);
  }
  /// Throws ConfigError that names what strata does not support, and the remedy.
  [[noreturn]] void refuse(const std::string& what) const {
    constexpr std::size_t kMostWords = 160;  // of strata, with a text of the file's in them
    fail(shortened(printable_name(what), kMostWords) +
         " is not supported. Make token files with the tokenizer's own library");
  }

  /// Returns a member, or null if it is missing.
  [[nodiscard]] JsonSection at(const char* key) const {
    static const nlohmann::json missing;
    if (!value_->is_object()) fail("an object is expected, not " + shown(*value_));
    const auto found = value_->find(key);
    return {found == value_->end() ? missing : *found, place_ + '.' + key};
  }
  /// Returns the section of a member that the caller has found itself.
  [[nodiscard]] JsonSection member(const std::string& key, const nlohmann::json& value) const {
    return {value, place_ + '.' + key};
  }
  [[nodiscard]] std::vector<JsonSection> items() const {
    if (!value_->is_array()) fail("a list is expected, not " + shown(*value_));
    std::vector<JsonSection> sections;
    for (std::size_t i = 0; i < value_->size(); ++i) {
      sections.push_back(item(i));
    }
    return sections;
  }
  /// Returns an item of a list that has it.
  [[nodiscard]] JsonSection item(std::size_t i) const {
    return {(*value_)[i], place_ + '[' + std::to_string(i) + ']'};
  }
  [[nodiscard]] std::string text() const {
    if (!value_->is_string()) fail("a text is expected, not " + shown(*value_));
    return value_->get<std::string>();
  }
  /// Returns a text that is looked for in others.
  [[nodiscard]] std::string pattern_text() const {
    std::string wanted = text();
    if (wanted.size() > kMostPatternBytes) {
      refuse("a pattern of more than " + std::to_string(kMostPatternBytes) + " bytes");
    }
    return wanted;
  }
  [[nodiscard]] std::string text_or(const std::string& fallback) const {
    return is_null() ? fallback : text();
  }
  [[nodiscard]] bool flag_or(bool fallback) const {
    if (is_null()) return fallback;
    if (!value_->is_boolean()) fail("true or false is expected, not " + shown(*value_));
    return value_->get<bool>();
  }
  /// Returns a number from 0 to 2^31 - 1.
  [[nodiscard]] std::int32_t count() const {
    const bool fits = value_->is_number_unsigned() && value_->get<std::uint64_t>() < (1U << 31);
    if (!fits) fail("a count below 2^31 is expected, not " + shown(*value_));
    return value_->get<std::int32_t>();
  }
  [[nodiscard]] std::string type() const { return at("type").text(); }
  /// Throws ConfigError if there are as many rules as there may be.
  void require_room(std::size_t rules) const {
    if (rules >= kMostRules) refuse("more than " + std::to_string(kMostRules) + " rules");
  }

 private:
  const nlohmann::json* value_;
  std::string place_;
};

}  // namespace strata
