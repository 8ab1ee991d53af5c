// Adds tokens to a tokenizer.json. Ids are those that the library `tokenizers` gives: it counts on
// from the larger of the number of tokens in the vocabulary and the last added token, and does so
// again whenever it reads the file.

#include "strata/tokenizer/add_tokens.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/text.h"
#include "strata/base/utf8.h"
#include "strata/tokenizer/tokenizer.h"
#include "strata/tokenizer/tokenizer_files.h"
#include "tokenizer/json_splice.h"
#include "tokenizer/tekken_file.h"
#include "tokenizer/tokenizer_json.h"

namespace strata {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kJsonName = "tokenizer.json";
constexpr std::string_view kMapName = "special_tokens_map.json";
constexpr std::string_view kAddedName = "added_tokens.json";
/// The names of the list of further special tokens, in transformers 5 and before. Both read the
/// second; in some versions the first is an object of something else.
constexpr std::string_view kExtraList = "extra_special_tokens";
constexpr std::string_view kAdditionalList = "additional_special_tokens";

std::string json_string(std::string_view text) { return json_text(OrderedJson(std::string(text))); }

void check_tokens(std::span<const std::string> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string name = "the token " + printable_name(shortened(tokens[i]));
    if (tokens[i].empty()) throw ConfigError("tokenizer add: a token needs a text");
    if (valid_utf8_bytes(tokens[i]) != tokens[i].size()) {
      throw ConfigError("tokenizer add: " + name + " is not valid UTF-8");
    }
    if (std::ranges::count(tokens.first(i), tokens[i]) != 0) {
      throw ConfigError("tokenizer add: " + name + " is given twice; leave one out");
    }
  }
}

/// The texts of a tokenizer's files, to which tokens are added one by one.
class Extension {
 public:
  explicit Extension(const std::string& tokenizer) : tokenizer_(Tokenizer::load(tokenizer)) {
    for (const TokenizerFile& file : tokenizer_files(tokenizer)) {
      paths_.push_back(file.path.string());
      files_.push_back({.name = file.name, .text = file.read()});
    }
    const TokenizerJson json = parsed_main();
    std::int64_t next = std::ssize(json.ids);
    const auto added = json.tree.find("added_tokens");
    if (added != json.tree.end() && added->is_array()) {
      for (const auto& token : *added)
        next = std::max(next, token.at("id").get<std::int64_t>() + 1);
    }
    next_ = static_cast<std::int32_t>(next);
    for (std::size_t i = 1; i < files_.size(); ++i) check_object(i);
  }

  RequestedToken add(const std::string& text) {
    const std::optional<std::int32_t> own = tokenizer_->id_of(text);
    if (own && tokenizer_->is_added(*own)) return {.text = text, .id = *own, .is_new = false};
    if (!own && !tokenizer_->token(next_).empty()) {
      throw ConfigError(paths_.front() + ": the id " + std::to_string(next_) +
                        ", which other programs would give " + printable_name(shortened(text)) +
                        ", is another token's, since ids have gaps; no tokens can be added");
    }
    const std::int32_t id = own ? *own : next_++;
    for (TokenizerFileText& file : files_) add_to(file, text, id);
    return {.text = text, .id = id};
  }

  [[nodiscard]] std::vector<TokenizerFileText> take() && { return std::move(files_); }
  [[nodiscard]] std::int64_t vocabulary() const {
    return std::max<std::int64_t>(tokenizer_->vocabulary(), next_);
  }
  [[nodiscard]] const std::string& path() const { return paths_.front(); }

 private:
  [[nodiscard]] TokenizerJson parsed_main() const {
    const auto refuse = [&] {
      throw ConfigError(
          paths_.front() +
          ": is no tokenizer.json, and only that can take tokens; make one of it in Python, by "
          "transformers.AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OTHER)");
    };
    if (files_.front().name != kJsonName) refuse();
    TokenizerJson json = parse_tokenizer_json(files_.front().text);
    if (is_tekken(json.tree)) refuse();
    return json;
  }

  /// Throws ConfigError for a JSON file beside the tokenizer's that is no object.
  void check_object(std::size_t i) const {
    const std::string& name = files_[i].name;
    if (name != kTokenizerConfigName && name != kMapName && name != kAddedName) return;
    bool is_object = false;
    try {
      is_object = parse_json<nlohmann::json>(files_[i].text).is_object();
    } catch (const nlohmann::json::exception& error) {
      throw ConfigError(paths_[i] + ": is not JSON: " + json_problem(error));
    }
    if (!is_object) throw ConfigError(paths_[i] + ": is no JSON object");
  }

  static void add_to(TokenizerFileText& file, const std::string& text, std::int32_t id) {
    const OrderedJson token{{"content", text}, {"single_word", false}, {"lstrip", false},
                            {"rstrip", false}, {"normalized", false},  {"special", true}};
    if (file.name == kJsonName) {
      OrderedJson entry = OrderedJson::object();
      entry["id"] = id;
      entry.update(token);
      add_to_list(file.text, "added_tokens", json_text(entry));
    } else if (file.name == kTokenizerConfigName) {
      const std::string key = std::to_string(id);
      const std::optional<JsonPlace> decoder = member(file.text, "added_tokens_decoder", '{');
      if (decoder && !find_member(file.text, *decoder, key)) {
        append_item(file.text, *decoder, json_string(key) + ": " + json_text(token));
      }
      const bool has_extra = member(file.text, kExtraList, '[').has_value();
      add_to_list(file.text, has_extra ? kExtraList : kAdditionalList, json_string(text));
    } else if (file.name == kMapName) {
      add_to_list(file.text, kAdditionalList, json_string(text));
    } else if (file.name == kAddedName) {
      append_item(file.text, json_place(file.text), json_string(text) + ": " + std::to_string(id));
    }
  }

  /// Returns the place of a member that begins with this bracket.
  static std::optional<JsonPlace> member(const std::string& text, std::string_view key,
                                         char bracket) {
    const std::optional<JsonPlace> found = find_member(text, json_place(text), key);
    if (!found || text[found->begin] != bracket) return std::nullopt;
    return found;
  }

  /// Adds an item to a list, which is made where there is none, or something that is no list.
  static void add_to_list(std::string& text, std::string_view key, const std::string& item) {
    if (const std::optional<JsonPlace> list = member(text, key, '[')) {
      return append_item(text, *list, item);
    }
    const std::string list = '[' + item + ']';
    if (const auto other = find_member(text, json_place(text), key)) {
      text.replace(other->begin, other->end - other->begin, list);
    } else {
      append_item(text, json_place(text), json_string(key) + ": " + list);
    }
  }

  std::unique_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> paths_;        ///< of the files, the tokenizer's own first
  std::vector<TokenizerFileText> files_;  ///< as far as tokens were added
  std::int32_t next_ = 0;                 ///< the id of the next new token
};

}  // namespace

ExtendedTokenizer add_special_tokens(const std::string& tokenizer,
                                     std::span<const std::string> tokens) {
  check_tokens(tokens);
  Extension extension(tokenizer);
  ExtendedTokenizer extended;
  for (const std::string& token : tokens) extended.tokens.push_back(extension.add(token));
  if (std::ranges::none_of(extended.tokens, &RequestedToken::is_new)) {
    throw ConfigError(extension.path() + ": has all of these tokens; use it as it is");
  }
  extended.vocabulary = extension.vocabulary();
  extended.files = std::move(extension).take();
  return extended;
}

}  // namespace strata
