// Takes from a tokenizer.json what strata can do, and refuses the rest by its place in the file.

#include "tokenizer/hugging_face_file.h"

#include <algorithm>
#include <utility>

#include "strata/base/json.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/json_section.h"

namespace strata {
namespace {

/// Adds tokens to a table. Every id up to the largest takes memory, so a few tokens may not have
/// large ones; vocabularies do have gaps.
class TokenSetter {
 public:
  TokenSetter(TokenTable& tokens, std::size_t count)
      : tokens_(tokens), most_ids_(std::min(kMostIds, kMostGaps + 4 * count)) {}

  void set(const JsonSection& place, std::string_view text, std::int32_t id) const {
    if (static_cast<std::size_t>(id) >= most_ids_) {
      place.fail("the id " + std::to_string(id) +
                 " is too large for a vocabulary of so few tokens");
    }
    tokens_.set(id, text);
  }

 private:
  static constexpr std::size_t kMostIds = std::size_t{1} << 24;
  static constexpr std::size_t kMostGaps = std::size_t{1} << 18;
  TokenTable& tokens_;
  std::size_t most_ids_;
};

TokenTable read_vocabulary(const JsonSection& section, const TokenizerJson& json) {
  if (!section.value().is_object()) section.fail("an object of tokens and ids is expected");
  TokenTable tokens;
  tokens.reserve(json.ids.size());
  const TokenSetter setter(tokens, json.ids.size());
  for (std::size_t i = 0; i < json.ids.size(); ++i) {
    if (tokens.find(json.tokens[i])) {
      section.fail("has twice the token " + shortened(printable_name(json.tokens[i])));
    }
    setter.set(section, json.tokens[i], json.ids[i]);
  }
  return tokens;
}

std::vector<BpeMerge> read_merges(const JsonSection& section, const TokenizerJson& json,
                                  const TokenTable& table) {
  if (!section.value().is_array()) section.fail("a list of merges is expected");
  const auto id = [&](std::size_t merge, std::string_view token) {
    const std::optional<std::int32_t> found = table.find(token);
    if (found) return *found;
    section.fail("the vocabulary does not have " + shortened(printable_name(token)) + " of merge " +
                 std::to_string(merge));
  };
  std::vector<BpeMerge> merges;
  merges.reserve(json.merged.size() / 2);
  for (std::size_t i = 0; 2 * i < json.merged.size(); ++i) {
    merges.push_back({.left = id(i, json.merged[2 * i]),
                      .right = id(i, json.merged[2 * i + 1]),
                      .merged = id(i, json.merged.join(2 * i, 2 * i + 2)),
                      .rank = static_cast<std::uint32_t>(i)});
  }
  return merges;
}

void refuse_affixes(const JsonSection& model) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.at(key).text_or("").empty()) model.at(key).refuse("a text here");
  }
  const JsonSection dropout = model.at("dropout");
  if (!dropout.is_null() && dropout.value() != 0.0) dropout.refuse("dropout");
}

/// Tells whether a merge takes a byte's token, which is text to byte fallback and to nobody else.
bool merges_byte_tokens(const std::vector<BpeMerge>& merges, const TokenTable& tokens) {
  const auto is_byte = [&](std::int32_t id) {
    const std::string& token = tokens.text(id);
    return token.size() == 6 && token.starts_with("<0x");
  };
  return std::any_of(merges.begin(), merges.end(), [&](const BpeMerge& merge) {
    return is_byte(merge.left) || is_byte(merge.right);
  });
}

BpeOptions read_bpe_options(const JsonSection& model, const PreTokenizer& pre_tokenizer,
                            const TokenTable& tokens) {
  BpeOptions options{
      .symbols = pre_tokenizer.is_byte_level() ? BpeSymbols::kBytes : BpeSymbols::kCodePoints,
      .ignore_merges = model.at("ignore_merges").flag_or(false),
      .byte_fallback = model.at("byte_fallback").flag_or(false),
      .fuse_unk = model.at("fuse_unk").flag_or(false)};
  const JsonSection unk = model.at("unk_token");
  if (!unk.is_null()) {
    options.unk = tokens.find(unk.text());
    if (!options.unk) unk.fail("the vocabulary does not have this token");
  }
  if (options.symbols == BpeSymbols::kBytes && options.byte_fallback) {
    model.at("byte_fallback").refuse("byte fallback with ByteLevel");
  }
  return options;
}

void read_template(const JsonSection& section, TextFrame& result) {
  if (section.is_null()) return;
  const std::string type = section.type();
  if (type == "ByteLevel") return;
  if (type == "Sequence") {
    for (const JsonSection& step : section.at("processors").items()) read_template(step, result);
    return;
  }
  if (type != "TemplateProcessing") section.refuse("the post-processor " + type);
  bool text_seen = false;
  for (const JsonSection& item : section.at("single").items()) {
    if (!item.at("Sequence").is_null()) {
      if (text_seen) item.refuse("a template with two texts");
      text_seen = true;
      continue;
    }
    const std::string name = item.at("SpecialToken").at("id").text();
    const JsonSection ids = section.at("special_tokens").at(name.c_str()).at("ids");
    for (const JsonSection& id : ids.items()) {
      (text_seen ? result.after : result.before).push_back(id.count());
    }
  }
  if (!text_seen) section.at("single").refuse("a template without the text");
}
std::uint64_t file_hash(const JsonSection& root, const TokenTable& tokens,
                        const std::vector<BpeMerge>& merges) {
  TokenizerHash hash;
  for (const std::string& token : tokens.tokens()) hash.add(token);
  for (const BpeMerge& m : merges) hash.add(std::to_string(m.left) + ' ' + std::to_string(m.right));
  for (const char* key : {"normalizer", "pre_tokenizer", "added_tokens", "post_processor"}) {
    hash.add(json_text(root.at(key).value()));
  }
  for (const char* key : {"ignore_merges", "byte_fallback", "fuse_unk", "unk_token"}) {
    hash.add(json_text(root.at("model").at(key).value()));
  }
  return hash.value();
}

/// Returns the tokens as the model sees texts: bytes where ByteLevel writes them.
std::vector<std::string> model_texts(const TokenTable& tokens, BpeSymbols symbols) {
  std::vector<std::string> texts = tokens.tokens();
  if (symbols == BpeSymbols::kCodePoints) return texts;
  for (std::string& text : texts) text = bytes_of_byte_level(text).value_or("");
  return texts;
}
}  // namespace

TokenizerParts hugging_face_parts(const TokenizerJson& json) {
  const JsonSection root(json.tree, "$");
  const JsonSection model = root.at("model");
  const std::string type = model.at("type").text_or("BPE");
  if (type != "BPE") model.refuse("the model " + type);
  refuse_affixes(model);
  Normalizer normalizer = Normalizer::read(root.at("normalizer"));
  PreTokenizer pre_tokenizer = PreTokenizer::read(root.at("pre_tokenizer"));
  Decoder decoder = Decoder::read(root.at("decoder"));
  AddedTokens added = AddedTokens::read(root.at("added_tokens"), normalizer);
  TextFrame around;
  read_template(root.at("post_processor"), around);

  TokenTable tokens = read_vocabulary(model.at("vocab"), json);
  const std::vector<BpeMerge> merges = read_merges(model.at("merges"), json, tokens);
  BpeOptions options = read_bpe_options(model, pre_tokenizer, tokens);
  const bool may_cut = pre_tokenizer.keeps_texts_whole() && !options.ignore_merges &&
                       !merges_byte_tokens(merges, tokens);
  options.cuts = may_cut ? SafeCuts::kAllowed : SafeCuts::kNever;
  Bpe bpe(model_texts(tokens, options.symbols), merges, options);

  const TokenSetter setter(tokens, json.ids.size() + added.tokens().size());
  for (const AddedToken& token : added.tokens()) {
    if (tokens.find(token.text).value_or(token.id) != token.id) {
      root.at("added_tokens")
          .fail("the vocabulary has another id for " + printable_name(shortened(token.text)));
    }
    setter.set(root.at("added_tokens"), token.text, token.id);
  }
  std::vector<bool> special(tokens.tokens().size());
  for (const AddedToken& token : added.tokens()) {
    if (token.special) special[static_cast<std::size_t>(token.id)] = true;
  }
  const std::uint64_t hash = file_hash(root, tokens, merges);
  return {.normalizer = std::move(normalizer),
          .pre_tokenizer = std::move(pre_tokenizer),
          .decoder = std::move(decoder),
          .added = std::move(added),
          .around = std::move(around),
          .tokens = std::move(tokens),
          .special = std::move(special),
          .bpe = std::move(bpe),
          .hash = hash,
          .special_tokens = {}};
}

}  // namespace strata
