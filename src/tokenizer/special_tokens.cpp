// Reads the files beside a tokenizer for its special tokens. transformers reads the two older files
// only where tokenizer_config.json does not list the added tokens itself; then
// special_tokens_map.json has the last word. Texts that the tokenizer knows keep their ids, and a
// tokenizer that lacks nothing keeps its hash.

#include "tokenizer/special_tokens.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "strata/base/text.h"

namespace strata {
namespace {

constexpr const char* kDecoder = "added_tokens_decoder";
constexpr std::array<std::string_view, 7> kUsual{"bos_token", "eos_token", "unk_token", "sep_token",
                                                 "pad_token", "cls_token", "mask_token"};

/// Returns the text of a token that is given as that, or as an object that describes it.
std::string token_text(const JsonSection& token) {
  return token.value().is_object() ? token.at("content").text() : token.text();
}

/// Special tokens as files name them, the later file over the earlier one.
class SpecialNames {
 public:
  void read(const JsonSection& root) {
    if (root.is_null()) return;
    if (!root.value().is_object()) root.fail("an object is expected, not " + shown(root.value()));
    for (const auto& [key, value] : root.value().items()) read_member(key, root.member(key, value));
  }
  /// Tells whether a text is that of a special token.
  [[nodiscard]] bool has_text(const std::string& text) const {
    return unnamed_.contains(text) || std::ranges::any_of(named_, [&](const auto& entry) {
             return token_text(entry.second) == text;
           });
  }
  /// Returns the id of a token, if it is named.
  [[nodiscard]] std::optional<std::int32_t> id_of(const char* name, const TokenTable& table) const {
    const auto found = named_.find(name);
    if (found == named_.end()) return std::nullopt;
    const std::optional<std::int32_t> id = table.find(token_text(found->second));
    if (!id) {
      found->second.fail("the vocabulary does not have " + shown(found->second.value()));
    }
    return id;
  }
  /// Returns all that have a name, and bos and eos of the tokenizer's own file.
  [[nodiscard]] std::vector<NamedToken> all(const TokenizerParts& parts) const {
    std::vector<NamedToken> tokens;
    for (const auto& [name, token] : named_) tokens.push_back({name, token_text(token)});
    const auto add_own = [&](const char* name, std::optional<std::int32_t> id) {
      if (id && !named_.contains(name)) tokens.push_back({name, parts.tokens.text(*id)});
    };
    add_own("bos_token", parts.special_tokens.bos);
    add_own("eos_token", parts.special_tokens.eos);
    return tokens;
  }

 private:
  void read_member(const std::string& key, const JsonSection& member) {
    const nlohmann::json& value = member.value();
    const bool is_usual = std::ranges::find(kUsual, key) != kUsual.end();
    if (key == "additional_special_tokens" || key == "extra_special_tokens") {
      read_extra(member);
    } else if (is_usual && value.is_null()) {
      named_.erase(key);
    } else if (is_usual || (key.ends_with("_token") && (value.is_string() || value.is_object()))) {
      set(key, member);
    }
  }
  /// Reads tokens that have names of the model's own, or none.
  void read_extra(const JsonSection& extra) {
    if (extra.value().is_object()) {
      for (const auto& [name, value] : extra.value().items()) set(name, extra.member(name, value));
    } else if (!extra.is_null()) {
      for (const JsonSection& item : extra.items()) unnamed_.insert(token_text(item));
    }
  }
  void set(const std::string& name, const JsonSection& token) {
    (void)token_text(token);  // which throws for what has none
    named_.insert_or_assign(name, token);
  }

  std::map<std::string, JsonSection> named_{};
  std::set<std::string> unnamed_{};
};

/// An added token, and where it stands in its file.
struct Listed {
  AddedToken token;
  JsonSection place;
};

std::int32_t id_of_key(const std::string& key, const JsonSection& place) {
  std::int32_t id = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size() || id < 0) {
    place.fail("an id is expected as the name");
  }
  return id;
}

/// Reads the object of tokenizer_config.json that has added tokens by id.
std::vector<Listed> read_decoder(const JsonSection& decoder) {
  std::vector<Listed> listed;
  if (!decoder.value().is_object()) decoder.fail("an object of ids and tokens is expected");
  for (const auto& [key, value] : decoder.value().items()) {
    const JsonSection item = decoder.member(key, value);
    const std::string text = item.at("content").text();
    listed.push_back({.token = {.id = id_of_key(key, item),
                                .text = text,
                                .pattern = text,
                                .lstrip = item.at("lstrip").flag_or(false),
                                .rstrip = item.at("rstrip").flag_or(false),
                                .special = item.at("special").flag_or(false)},
                      .place = item});
  }
  return listed;
}

/// Reads added_tokens.json, which has ids by token.
std::vector<Listed> read_added(const JsonSection& root, const SpecialNames& names) {
  std::vector<Listed> listed;
  if (root.is_null()) return listed;
  if (!root.value().is_object()) root.fail("an object of tokens and ids is expected");
  for (const auto& [text, value] : root.value().items()) {
    const JsonSection item = root.member(text, value);
    listed.push_back({.token = {.id = item.count(),
                                .text = text,
                                .pattern = text,
                                .special = names.has_text(text)},
                      .place = item});
  }
  return listed;
}

/// Few tokens may not have large ids, each of which takes memory; those of a vocabulary may.
void check_id(const Listed& listed, const TokenTable& tokens, std::size_t count) {
  constexpr std::size_t kMostGaps = std::size_t{1} << 18;
  const auto id = static_cast<std::size_t>(listed.token.id);
  if (id >= tokens.tokens().size() + count + kMostGaps) {
    listed.place.fail("the id " + std::to_string(id) + " is too large for this vocabulary");
  }
  if (id < tokens.tokens().size() && !tokens.text(listed.token.id).empty()) {
    listed.place.fail("the id " + std::to_string(id) + " is that of " +
                      printable_name(shortened(tokens.text(listed.token.id))) +
                      "; name the tokenizer that the file belongs to");
  }
}

/// Adds the tokens whose texts the tokenizer lacks. They are found in texts as they stand, before
/// a normalizer sees those, as by the programs that wrote such files.
void add_listed_tokens(const std::vector<Listed>& all, TokenizerParts& parts) {
  std::vector<AddedToken> added = parts.added.tokens();
  const std::size_t before = added.size();
  TokenizerHash hash;
  hash.add(std::to_string(parts.hash));
  for (const Listed& listed : all) {
    const AddedToken& token = listed.token;
    if (token.text.empty()) listed.place.fail("an added token needs a text");
    if (parts.tokens.find(token.text)) continue;
    if (listed.place.value().is_object() && listed.place.at("single_word").flag_or(false)) {
      listed.place.refuse("an added token with single_word");
    }
    check_id(listed, parts.tokens, all.size());
    parts.tokens.set(token.id, token.text);
    hash.add(token.text);
    hash.add(std::to_string(token.id) + (token.lstrip ? " l" : "") + (token.rstrip ? " r" : "") +
             (token.special ? " s" : ""));
    added.push_back(token);
  }
  if (added.size() == before) return;
  parts.special.resize(parts.tokens.tokens().size());
  for (std::size_t i = before; i < added.size(); ++i) {
    parts.special[static_cast<std::size_t>(added[i].id)] = added[i].special;
  }
  parts.added = AddedTokens(std::move(added));
  parts.hash = hash.value();
}

/// Returns what is named and, where nothing is, what stands around texts.
SpecialTokens special_tokens_of(const SpecialNames& names, const FilesBeside& beside,
                                const TokenizerParts& parts) {
  const TextFrame& around = parts.around;
  SpecialTokens special = parts.special_tokens;
  if (const auto bos = names.id_of("bos_token", parts.tokens)) special.bos = bos;
  if (const auto eos = names.id_of("eos_token", parts.tokens)) special.eos = eos;
  if (!special.bos && !around.before.empty()) special.bos = around.before.front();
  if (!special.eos && !around.after.empty()) special.eos = around.after.back();
  bool begins =
      special.bos && std::ranges::find(around.before, *special.bos) != around.before.end();
  if (!beside.config.json.is_null()) {
    begins = beside.config.root().at("add_bos_token").flag_or(begins);
  }
  special.begins_texts = special.bos && begins;
  special.named = names.all(parts);
  return special;
}

}  // namespace

void add_files_beside(const FilesBeside& beside, TokenizerParts& parts) {
  SpecialNames names;
  names.read(beside.config.root());
  const bool has_config = !beside.config.json.is_null();
  const bool lists_added = has_config && beside.config.json.contains(kDecoder);
  if (!lists_added) names.read(beside.map.root());
  add_listed_tokens(lists_added ? read_decoder(beside.config.root().at(kDecoder))
                                : read_added(beside.added.root(), names),
                    parts);
  parts.special_tokens = special_tokens_of(names, beside, parts);
}

}  // namespace strata
