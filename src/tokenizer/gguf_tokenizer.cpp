// Finds what llama.cpp calls a tokenizer, by the structure of its file. Facts about llama.cpp are
// from its src/llama-vocab.cpp, as of version 0.3.36 of llama-cpp-python.

#include "strata/tokenizer/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/tokenizer/encode_cache.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/gguf_scores.h"
#include "tokenizer/piece_text.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/tokenizer_file.h"

namespace strata {
namespace {

/// A pre-tokenizer that llama.cpp has a name for: patterns, one after the other.
struct PreTokenizerName {
  std::array<std::optional<SplitPattern>, 3> patterns;
  bool ignores_merges;
  std::string_view name;
};
constexpr PreTokenizerName kPreTokenizers[] = {
    {{SplitPattern::kGpt2}, false, "gpt-2"},
    {{SplitPattern::kNumber, SplitPattern::kGpt2}, false, "smollm"},
    {{SplitPattern::kLlama3}, true, "llama-bpe"},
    {{SplitPattern::kLlama3}, false, "dbrx"},
    {{SplitPattern::kQwen2}, false, "qwen2"},
    {{SplitPattern::kQwen35}, false, "qwen35"},
    {{SplitPattern::kO200k}, false, "gpt-4o"},
    {{SplitPattern::kTekken}, true, "tekken"},
    {{SplitPattern::kDeepSeekNumbers, SplitPattern::kDeepSeekCjk, SplitPattern::kDeepSeekWords},
     false,
     "deepseek-v3"},
};

[[noreturn]] void refuse(const TokenizerParts& parts, const std::string& what) {
  throw ConfigError(printable_name(parts.file) + ": llama.cpp cannot read this tokenizer: " + what +
                    "; export the model as a Hugging Face folder (--format hf)");
}

/// Lists the tokens of a vocabulary with their types, whose numbers are SentencePiece's, in the
/// order of ids.
struct TokenList {
  std::vector<std::string> texts;
  std::vector<std::int32_t> types;

  void add(std::string text, PieceType type) {
    texts.push_back(std::move(text));
    types.push_back(static_cast<std::int32_t>(type));
  }
};

std::optional<std::int32_t> id_of_named(const TokenizerParts& parts, std::string_view name) {
  for (const NamedToken& token : parts.special_tokens.named) {
    if (token.name == name) return parts.tokens.find(token.text);
  }
  return std::nullopt;
}

std::optional<std::int32_t> unknown_of(const TokenizerParts& parts) {
  if (parts.bpe.options().unk) return parts.bpe.options().unk;
  return id_of_named(parts, "unk_token");
}

TokenList token_list(const TokenizerParts& parts, std::int64_t vocabulary, bool has_byte_tokens) {
  const std::optional<std::int32_t> unknown = unknown_of(parts);
  std::vector<bool> is_added(parts.special.size());
  for (const AddedToken& token : parts.added.tokens()) {
    is_added[static_cast<std::size_t>(token.id)] = true;
  }
  TokenList list;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(vocabulary); ++id) {
    const std::string text = id < parts.tokens.size() ? parts.tokens.text(id) : std::string();
    if (text.empty()) {
      list.add("[PAD" + std::to_string(id) + "]", PieceType::kUnused);
    } else if (has_byte_tokens && id == unknown) {
      list.add(text, PieceType::kUnknown);
    } else if (parts.special[static_cast<std::size_t>(id)]) {
      list.add(text, PieceType::kControl);
    } else if (is_added[static_cast<std::size_t>(id)]) {
      list.add(has_byte_tokens ? replaced(text, kSpaceMark, " ") : text, PieceType::kUserDefined);
    } else if (has_byte_tokens && is_byte_token(text)) {
      list.add(text, PieceType::kByte);
    } else {
      list.add(text, PieceType::kNormal);
    }
  }
  return list;
}

void add_token_keys(const TokenList& tokens, GgufKeys& keys) {
  keys.add_texts("tokenizer.ggml.tokens", tokens.texts);
  keys.add_integers("tokenizer.ggml.token_type", tokens.types);
}

// ---- special tokens ----

void add_id(std::string_view key, std::optional<std::int32_t> id, GgufKeys& keys) {
  if (id) keys.add_count(key, *id);
}

/// Adds the ids of special tokens, and which of them stand around texts.
void add_special(const TokenizerParts& parts, GgufKeys& keys) {
  const SpecialTokens& special = parts.special_tokens;
  if (!special.eos) {
    refuse(parts,
           "it names no token that ends texts, and llama.cpp would take some other one (set "
           "eos_token in tokenizer_config.json)");
  }
  const auto is = [](const std::vector<std::int32_t>& ids, std::optional<std::int32_t> id) {
    return ids.empty() || (id && ids == std::vector{*id});
  };
  if (!is(parts.around.before, special.bos) || !is(parts.around.after, special.eos)) {
    refuse(parts, "it puts other tokens around texts than bos_token and eos_token");
  }
  add_id("tokenizer.ggml.bos_token_id", special.bos, keys);
  add_id("tokenizer.ggml.eos_token_id", special.eos, keys);
  add_id("tokenizer.ggml.unknown_token_id", unknown_of(parts), keys);
  add_id("tokenizer.ggml.padding_token_id", id_of_named(parts, "pad_token"), keys);
  keys.add_flag("tokenizer.ggml.add_bos_token", special.begins_texts);
  keys.add_flag("tokenizer.ggml.add_eos_token", !parts.around.after.empty());
}

// ---- what is written although llama.cpp does otherwise ----

void add_warning(const std::string& what, GgufTokenizer& result) {
  result.warning += (result.warning.empty() ? "" : "; ") + what;
}

void warn_of_stripping(const TokenizerParts& parts, GgufTokenizer& result) {
  for (const AddedToken& token : parts.added.tokens()) {
    if (!token.lstrip && !token.rstrip) continue;
    add_warning("llama.cpp leaves white space beside " + printable_name(shortened(token.text)),
                result);
    return;
  }
}

/// llama.cpp puts a space in front of a text and behind each added token in it, whatever follows.
void warn_of_spaces(const TokenizerParts& parts, const PreTokenizer::SpaceRule& spaces,
                    GgufTokenizer& result) {
  if (parts.pre_tokenizer.space_rule()) {  // Metaspace looks at what is there
    add_warning("llama.cpp puts a space also in front of texts that begin with one", result);
  }
  for (const AddedToken& token : parts.added.tokens()) {
    if (spaces.prefix_later && (token.special || !token.normalized)) continue;
    add_warning("llama.cpp puts a space also behind " + printable_name(shortened(token.text)),
                result);
    return;
  }
}

// ---- byte-level BPE ----

/// Tells whether merging makes every token of its own text, so that pieces which are a token get
/// the same id with ignore_merges and without.
bool merges_make_all_tokens(const TokenizerParts& parts) {
  std::vector<std::string> texts(parts.tokens.tokens().size());
  for (std::size_t id = 0; id < texts.size(); ++id) {
    texts[id] = bytes_of_byte_level(parts.tokens.tokens()[id]).value_or("");
  }
  for (const AddedToken& token : parts.added.tokens()) {
    texts[static_cast<std::size_t>(token.id)].clear();
  }
  const Bpe merging(texts, parts.bpe.merges(), {.symbols = BpeSymbols::kBytes});
  EncodeCache cache;
  std::vector<std::int32_t> ids;
  for (std::size_t id = 0; id < texts.size(); ++id) {
    ids.clear();
    if (!texts[id].empty()) merging.encode(texts[id], cache, ids);
    if (!texts[id].empty() && ids != std::vector{static_cast<std::int32_t>(id)}) return false;
  }
  return true;
}

std::string_view pre_tokenizer_name(const TokenizerParts& parts) {
  const auto patterns = parts.pre_tokenizer.patterns();
  if (!patterns) {
    refuse(parts, "its pre-tokenizer does more than to split by patterns (as add_prefix_space)");
  }
  const bool ignores_merges = parts.bpe.options().ignore_merges;
  const PreTokenizerName* other = nullptr;  // with the same patterns
  for (const PreTokenizerName& known : kPreTokenizers) {
    std::vector<SplitPattern> wanted;
    for (const std::optional<SplitPattern>& pattern : known.patterns) {
      if (pattern) wanted.push_back(*pattern);
    }
    if (wanted != *patterns) continue;
    if (known.ignores_merges == ignores_merges) return known.name;
    other = &known;
  }
  if (other != nullptr && merges_make_all_tokens(parts)) return other->name;
  std::string texts;
  for (const SplitPattern pattern : *patterns) {
    texts += (texts.empty() ? "" : " then ") + shortened(std::string(regex_of(pattern)));
  }
  refuse(parts, "it has no name for the pre-tokenizer " + (texts.empty() ? "null" : texts) +
                    (ignores_merges ? " with ignore_merges" : " without ignore_merges"));
}

GgufTokenizer byte_level_tokenizer(const TokenizerParts& parts, std::int64_t vocabulary) {
  if (!parts.normalizer.is_empty() && !parts.normalizer.is_nfc()) {
    refuse(parts, "byte-level BPE has no normalizer there");
  }
  GgufTokenizer result;
  result.keys.add_text("tokenizer.ggml.model", "gpt2");
  result.keys.add_text("tokenizer.ggml.pre", pre_tokenizer_name(parts));
  add_token_keys(token_list(parts, vocabulary, false), result.keys);
  std::vector<std::string> merges;
  for (const BpeMerge& merge : parts.bpe.merges()) {
    merges.push_back(parts.tokens.text(merge.left) + ' ' + parts.tokens.text(merge.right));
  }
  result.keys.add_texts("tokenizer.ggml.merges", merges);
  add_special(parts, result.keys);
  if (parts.normalizer.is_nfc()) {
    add_warning("llama.cpp does not bring texts to normal form C", result);
  }
  warn_of_stripping(parts, result);
  return result;
}

// ---- BPE as SentencePiece does it ----

/// Returns how spaces are written, from whichever part of the file says it.
PreTokenizer::SpaceRule space_rule_of(const TokenizerParts& parts) {
  const auto of_pre_tokenizer = parts.pre_tokenizer.space_rule();
  if (of_pre_tokenizer && parts.normalizer.is_empty()) return *of_pre_tokenizer;
  const auto of_normalizer = parts.normalizer.space_rule();
  const auto patterns = parts.pre_tokenizer.patterns();
  if (of_normalizer && patterns && patterns->empty()) {
    return {.prefix_first = of_normalizer->prefix, .prefix_later = of_normalizer->prefix};
  }
  refuse(parts,
         "it is neither byte-level, nor does it just write spaces as U+2581 (with "
         "remove_extra_whitespaces, other normalizers or pre-tokenizers)");
}

GgufTokenizer sentencepiece_tokenizer(const TokenizerParts& parts, std::int64_t vocabulary) {
  if (!parts.bpe.options().byte_fallback) refuse(parts, "it has no tokens for bytes");
  const PreTokenizer::SpaceRule spaces = space_rule_of(parts);
  const ScoredTokens scored = scores_of_merges(parts, spaces.splits);
  if (!scored.problem.empty()) refuse(parts, scored.problem);
  std::vector<float> scores = scored.scores;
  scores.resize(static_cast<std::size_t>(vocabulary), kScoreOfOthers);
  GgufTokenizer result;
  result.keys.add_text("tokenizer.ggml.model", "llama");
  result.keys.add_text("tokenizer.ggml.pre", "default");
  add_token_keys(token_list(parts, vocabulary, true), result.keys);
  result.keys.add_numbers("tokenizer.ggml.scores", scores);
  result.keys.add_flag("tokenizer.ggml.add_space_prefix", spaces.prefix_first);
  add_special(parts, result.keys);
  if (spaces.prefix_first) warn_of_spaces(parts, spaces, result);
  warn_of_stripping(parts, result);
  return result;
}

}  // namespace

GgufTokenizer gguf_tokenizer(const std::string& folder_or_file, std::int64_t vocabulary) {
  const TokenizerParts parts = read_tokenizer_file(folder_or_file);
  if (parts.tokens.size() > vocabulary) {
    throw ConfigError(printable_name(parts.file) + ": has ids up to " +
                      std::to_string(parts.tokens.size() - 1) + ", and the model only " +
                      std::to_string(vocabulary) + " of them; name the model's own tokenizer");
  }
  GgufTokenizer tokenizer = parts.pre_tokenizer.is_byte_level()
                                ? byte_level_tokenizer(parts, vocabulary)
                                : sentencepiece_tokenizer(parts, vocabulary);
  tokenizer.eos = *parts.special_tokens.eos;  // others were refused
  return tokenizer;
}

GgufKeys gguf_byte_tokenizer() {
  constexpr int kBytes = 256;
  TokenList tokens;
  for (int byte = 0; byte < kBytes; ++byte) {
    tokens.add(byte_level_of(std::string(1, static_cast<char>(byte))), PieceType::kNormal);
  }
  tokens.add("<|end_of_text|>", PieceType::kControl);
  GgufKeys keys;
  keys.add_text("tokenizer.ggml.model", "gpt2");
  keys.add_text("tokenizer.ggml.pre", "gpt-2");  // any would do: without merges, bytes stay bytes
  add_token_keys(tokens, keys);
  keys.add_texts("tokenizer.ggml.merges", {});
  keys.add_count("tokenizer.ggml.eos_token_id", kBytes);
  keys.add_flag("tokenizer.ggml.add_bos_token", false);
  keys.add_flag("tokenizer.ggml.add_eos_token", false);
  return keys;
}

}  // namespace strata
