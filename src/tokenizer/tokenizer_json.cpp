// Handles the events of the JSON parser for parse_tokenizer_json(), which the reader of tokenizer
// files calls: vocabulary and merges go into lists as they come, all else into a tree.

#include "tokenizer/tokenizer_json.h"

#include <limits>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/text.h"

namespace strata {
namespace {

using Json = nlohmann::json;

/// Takes what the parser meets. Every method returns whether to go on.
class Reader final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return value(Json()); }
  bool boolean(bool value) override { return this->value(Json(value)); }
  bool number_integer(number_integer_t value) override { return this->value(Json(value)); }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    return this->value(Json(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kVocabulary) return this->value(Json(value));
    if (value > std::numeric_limits<std::int32_t>::max()) fail_id(Json(value));
    result_.ids.push_back(static_cast<std::int32_t>(value));
    return true;
  }
  bool string(string_t& value) override {
    if (place_ == Place::kMerges) {
      add_merge(value);
    } else if (place_ == Place::kPair) {
      result_.merged.add(value);
    } else {
      return this->value(Json(std::move(value)));
    }
    return true;
  }
  bool binary(binary_t& /*value*/) override { return false; }  // JSON has none
  bool key(string_t& key) override {
    if (place_ == Place::kVocabulary) {
      result_.tokens.add(key);
    } else {
      key_ = std::move(key);
    }
    return true;
  }

  bool start_object(std::size_t /*size*/) override {
    const bool vocabulary = is_in_model("vocab");
    open(Json::object());
    if (!vocabulary) return true;
    place_ = Place::kVocabulary;
    result_.tokens.clear();
    result_.ids.clear();
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*size*/) override {
    if (place_ == Place::kMerges) {
      place_ = Place::kPair;
      return true;
    }
    const bool merges = is_in_model("merges");
    open(Json::array());
    if (!merges) return true;
    place_ = Place::kMerges;
    result_.merged.clear();
    return true;
  }
  bool end_array() override {
    if (place_ != Place::kPair) return close();
    place_ = Place::kMerges;
    if (result_.merged.size() != 2 * ++merges_) fail_merge(merges_ - 1, "a pair of tokens");
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    throw ConfigError("is not JSON: " + json_problem(error));
  }

  TokenizerJson take() { return std::move(result_); }

 private:
  enum class Place : std::uint8_t { kTree, kVocabulary, kMerges, kPair };

  bool is_in_model(std::string_view key) const {
    return path_.size() == 2 && key_ == key && is_model_;
  }
  bool value(Json value) {
    if (place_ == Place::kVocabulary) fail_id(value);
    if (place_ == Place::kMerges || place_ == Place::kPair) {
      fail_merge(merges_, "a text or a pair of texts");
    }
    put(std::move(value));
    return true;
  }
  Json* put(Json value) {
    if (path_.empty()) return &(result_.tree = std::move(value));
    Json& parent = *path_.back();
    if (!parent.is_array()) return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }
  /// Begins an object or a list, to which what comes belongs until it is closed.
  void open(Json value) {
    if (place_ != Place::kTree) this->value(value);
    if (path_.size() >= kMostJsonLevels) {
      throw ConfigError("objects and lists nest more than " + std::to_string(kMostJsonLevels) +
                        " levels deep; flatten them");
    }
    if (path_.size() == 1) is_model_ = key_ == "model";
    path_.push_back(put(std::move(value)));
  }
  bool close() {
    place_ = Place::kTree;
    merges_ = 0;
    path_.pop_back();
    return true;
  }
  /// Adds two tokens that are written as one text with a space between.
  void add_merge(std::string_view text) {
    const std::size_t space = text.find(' ');
    if (space == text.npos) fail_merge(merges_, "two tokens with a space between");
    result_.merged.add(text.substr(0, space));
    result_.merged.add(text.substr(space + 1));
    ++merges_;
  }

  [[noreturn]] void fail_id(const Json& found) const {
    const std::string key(result_.tokens[result_.tokens.size() - 1]);
    throw ConfigError("$.model.vocab." + shortened(printable(key)) +
                      ": a count below 2^31 is expected, not " + shown(found));
  }
  [[noreturn]] static void fail_merge(std::size_t index, const std::string& expected) {
    throw ConfigError("$.model.merges[" + std::to_string(index) + "]: " + expected +
                      " is expected");
  }

  TokenizerJson result_{};
  Place place_ = Place::kTree;
  bool is_model_ = false;      ///< whether path_[1] is model
  std::size_t merges_ = 0;     ///< that are whole
  std::string key_{};          ///< of the next value
  std::vector<Json*> path_{};  ///< what is open
};

}  // namespace

TokenizerJson parse_tokenizer_json(std::string_view text) {
  try {
    refuse_nul(text);
  } catch (const Json::exception& error) {
    throw ConfigError("is not JSON: " + json_problem(error));
  }
  Reader reader;
  Json::sax_parse(text.begin(), text.end(), &reader);
  return reader.take();
}

}  // namespace strata
