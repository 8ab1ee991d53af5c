// Makes the parts of a tokenizer of a tekken.json. The ids of special tokens are 0 to
// default_num_special_tokens - 1, and a byte token's is its rank after these. Of the vocabulary
// only as many tokens count as default_vocab_size leaves room for.

#include "tokenizer/tekken_file.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "tokenizer/base64.h"
#include "tokenizer/byte_vocabulary.h"
#include "tokenizer/json_section.h"

namespace strata {
namespace {

/// The special tokens of files that do not list theirs, which those up to version v7 need not.
constexpr std::array kOldSpecial{"<unk>",
                                 "<s>",
                                 "</s>",
                                 "[INST]",
                                 "[/INST]",
                                 "[AVAILABLE_TOOLS]",
                                 "[/AVAILABLE_TOOLS]",
                                 "[TOOL_RESULTS]",
                                 "[/TOOL_RESULTS]",
                                 "[TOOL_CALLS]",
                                 "[IMG]",
                                 "<pad>",
                                 "[IMG_BREAK]",
                                 "[IMG_END]",
                                 "[PREFIX]",
                                 "[MIDDLE]",
                                 "[SUFFIX]",
                                 "[SYSTEM_PROMPT]",
                                 "[/SYSTEM_PROMPT]",
                                 "[TOOL_CONTENT]"};
constexpr std::int32_t kMostSpecial = 1 << 16;
constexpr std::array kOldVersions{"v1", "v2", "v3", "v7"};

std::vector<std::string> listed_special(const JsonSection& root) {
  const JsonSection section = root.at("special_tokens");
  std::vector<std::string> texts;
  if (section.is_null()) {
    const JsonSection version = root.at("config").at("version");
    const std::string text = version.text();
    if (std::find(kOldVersions.begin(), kOldVersions.end(), text) == kOldVersions.end()) {
      root.fail("special_tokens is missing, which only files up to version v7 may leave out");
    }
    texts.assign(kOldSpecial.begin(), kOldSpecial.end());
    return texts;
  }
  for (const JsonSection& item : section.items()) {
    if (static_cast<std::size_t>(item.at("rank").count()) != texts.size()) {
      item.at("rank").fail("ranks in order are expected");
    }
    texts.push_back(item.at("token_str").text());
    if (texts.back().empty()) item.at("token_str").fail("a special token needs a text");
  }
  return texts;
}

std::vector<ByteVocabulary::Special> special_of(const JsonSection& root, std::int32_t count) {
  std::vector<std::string> texts = listed_special(root);
  if (texts.size() > static_cast<std::size_t>(count)) {
    root.at("config").at("default_num_special_tokens").fail("there are more special tokens");
  }
  std::vector<ByteVocabulary::Special> special;
  for (std::int32_t id = 0; id < count; ++id) {
    const auto at = static_cast<std::size_t>(id);
    special.push_back(
        {.text = at < texts.size() ? std::move(texts[at]) : "<SPECIAL_" + std::to_string(id) + '>',
         .id = id});
  }
  return special;
}

std::vector<std::string> read_tokens(const JsonSection& vocabulary, std::size_t count) {
  if (!vocabulary.value().is_array() || vocabulary.value().size() < count) {
    vocabulary.fail("a list of at least " + std::to_string(count) + " tokens is expected");
  }
  std::vector<std::string> tokens;
  tokens.reserve(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    const JsonSection item = vocabulary.item(rank);
    if (static_cast<std::size_t>(item.at("rank").count()) != rank) {
      item.at("rank").fail("ranks in order are expected");
    }
    std::optional<std::string> token = base64_bytes(item.at("token_bytes").text());
    if (!token) item.at("token_bytes").fail("base64 is expected");
    tokens.push_back(std::move(*token));
  }
  return tokens;
}

std::string named_special(const std::vector<ByteVocabulary::Special>& special, const char* name) {
  const bool has = std::any_of(special.begin(), special.end(),
                               [&](const auto& token) { return token.text == name; });
  return has ? name : "";
}

}  // namespace

bool is_tekken(const nlohmann::json& document) {
  return document.is_object() && document.contains("config") && document.contains("vocab");
}

TokenizerParts tekken_parts(const nlohmann::json& document) {
  const JsonSection root(document, "$");
  const JsonSection config = root.at("config");
  const JsonSection pattern = config.at("pattern");
  const auto known = split_pattern_of(pattern.text(), RegexDialect::kTiktoken);
  if (!known) pattern.refuse("the regular expression " + shown(pattern.value()));
  const std::int32_t special_count = config.at("default_num_special_tokens").count();
  const std::int32_t size = config.at("default_vocab_size").count();
  if (special_count > kMostSpecial) {
    config.at("default_num_special_tokens")
        .fail("at most " + std::to_string(kMostSpecial) + " special tokens are expected");
  }
  if (size < special_count) {
    config.at("default_vocab_size").fail("more than default_num_special_tokens is expected");
  }
  ByteVocabulary vocabulary{
      .tokens = read_tokens(root.at("vocab"), static_cast<std::size_t>(size - special_count)),
      .first_id = special_count,
      .pattern = *known,
      .special = special_of(root, special_count)};
  vocabulary.bos = named_special(vocabulary.special, "<s>");
  vocabulary.eos = named_special(vocabulary.special, "</s>");
  return byte_vocabulary_parts(vocabulary);
}

}  // namespace strata
