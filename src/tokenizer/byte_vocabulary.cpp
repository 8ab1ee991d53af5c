// Makes the parts of a tokenizer of a vocabulary of bytes, and checks that it can be one.

#include "tokenizer/byte_vocabulary.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/text.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/ranked_merges.h"

namespace strata {
namespace {

void check_vocabulary(const std::vector<std::string>& tokens) {
  const TokenTable table(tokens);
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
    const std::string& token = tokens[rank];
    if (token.empty()) throw ConfigError("has no token of rank " + std::to_string(rank));
    if (table.find(token) != static_cast<std::int32_t>(rank)) {
      throw ConfigError("has twice the token " + shortened(printable(token)));
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (!table.find(std::string(1, static_cast<char>(byte)))) {
      throw ConfigError("has no token for the byte " + std::to_string(byte));
    }
  }
}

std::size_t ids_of(const ByteVocabulary& vocabulary) {
  std::size_t ids = static_cast<std::size_t>(vocabulary.first_id) + vocabulary.tokens.size();
  for (const auto& special : vocabulary.special) {
    ids = std::max(ids, static_cast<std::size_t>(special.id) + 1);
  }
  return ids;
}

Bpe bpe_of(const ByteVocabulary& vocabulary) {
  std::vector<std::string> texts(ids_of(vocabulary));
  std::ranges::copy(vocabulary.tokens, texts.begin() + vocabulary.first_id);
  std::vector<std::uint32_t> ranks(texts.size());
  std::iota(ranks.begin() + vocabulary.first_id, ranks.end(), 0U);
  return {texts, ranked_merges(texts, ranks),
          BpeOptions{.symbols = BpeSymbols::kBytes, .ignore_merges = true}};
}

TokenTable vocabulary_table(const ByteVocabulary& vocabulary) {
  std::vector<std::string> texts(ids_of(vocabulary));
  const auto set = [&](std::int32_t id, std::string text) {
    texts[static_cast<std::size_t>(id)] = std::move(text);
  };
  std::int32_t id = vocabulary.first_id;
  for (const std::string& token : vocabulary.tokens) set(id++, byte_level_of(token));
  for (const auto& special : vocabulary.special) set(special.id, special.text);
  TokenTable table(std::move(texts));
  for (const auto& special : vocabulary.special) {
    if (table.find(special.text) == special.id) continue;
    throw ConfigError("has twice the token " + shortened(printable(special.text)));
  }
  return table;
}

std::uint64_t vocabulary_hash(const ByteVocabulary& vocabulary) {
  TokenizerHash hash;
  hash.add("bytes with ranks");
  for (const std::string& token : vocabulary.tokens) hash.add(token);
  hash.add(std::to_string(vocabulary.first_id));
  hash.add(regex_of(vocabulary.pattern));
  hash.add(vocabulary.normal == ByteVocabulary::Normal::kNfc ? "NFC" : "");
  for (const auto& special : vocabulary.special) {
    hash.add(special.text);
    hash.add(std::to_string(special.id));
  }
  return hash.value();
}

}  // namespace

TokenizerParts byte_vocabulary_parts(const ByteVocabulary& vocabulary) {
  check_vocabulary(vocabulary.tokens);
  TokenTable table = vocabulary_table(vocabulary);
  Normalizer normalizer;
  if (vocabulary.normal == ByteVocabulary::Normal::kNfc) normalizer.add_nfc();
  PreTokenizer pre_tokenizer;
  pre_tokenizer.add_pattern(vocabulary.pattern);
  pre_tokenizer.set_byte_level();
  std::vector<AddedToken> added;
  std::vector<bool> special(table.tokens().size());
  for (const auto& token : vocabulary.special) {
    added.push_back({.id = token.id, .text = token.text, .pattern = token.text, .special = true});
    special[static_cast<std::size_t>(token.id)] = true;
  }
  const auto id = [&](const std::string& text) {
    return text.empty() ? std::nullopt : table.find(text);
  };
  const SpecialTokens special_tokens{.bos = id(vocabulary.bos),
                                     .eos = id(vocabulary.eos),
                                     .begins_texts = id(vocabulary.bos).has_value()};
  TextFrame around;
  if (special_tokens.bos) around.before.push_back(*special_tokens.bos);
  return {.normalizer = std::move(normalizer),
          .pre_tokenizer = std::move(pre_tokenizer),
          .decoder = Decoder::byte_level(),
          .added = AddedTokens(std::move(added)),
          .around = std::move(around),
          .tokens = std::move(table),
          .special = std::move(special),
          .bpe = bpe_of(vocabulary),
          .hash = vocabulary_hash(vocabulary),
          .special_tokens = special_tokens};
}

}  // namespace strata
