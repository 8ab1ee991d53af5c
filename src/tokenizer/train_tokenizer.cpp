// Trains a tokenizer and writes it as a tokenizer.json. Ids are special tokens, then the 256 bytes
// by their code points in ByteLevel, then what merges make: the order of the library `tokenizers`,
// which ties between pairs depend on.

#include "strata/tokenizer/train_tokenizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/text.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/piece_counts.h"
#include "tokenizer/splitter.h"
#include "tokenizer/unicode.h"

namespace strata {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct NamedSplit {
  std::string_view name;
  SplitPattern pattern;
};
/// Patterns of which every piece is a match, and of which last_cut() is true.
constexpr std::array kSplits = {
    NamedSplit{"gpt2", SplitPattern::kGpt2},   NamedSplit{"llama3", SplitPattern::kLlama3},
    NamedSplit{"qwen2", SplitPattern::kQwen2}, NamedSplit{"qwen35", SplitPattern::kQwen35},
    NamedSplit{"o200k", SplitPattern::kO200k}, NamedSplit{"tekken", SplitPattern::kTekken},
};

constexpr std::int64_t kByteTokens = 256;
constexpr std::int64_t kMostVocabulary = 1 << 24;

SplitPattern pattern_of(const std::string& name) {
  for (const NamedSplit& split : kSplits) {
    if (split.name == name) return split.pattern;
  }
  throw ConfigError("--split: " + printable_name(shortened(name)) + " is not known; take one of " +
                    split_names());
}

std::vector<std::string> special_tokens(const TokenizerTraining& training) {
  std::vector<std::string> tokens;
  if (!training.eos.empty()) tokens.push_back(training.eos);
  tokens.insert(tokens.end(), training.special.begin(), training.special.end());
  return tokens;
}

/// Tokens by id, as ByteLevel writes them, and the other way round.
class Vocabulary {
 public:
  /// Returns the id of a token, which gets the next one if it is new.
  std::int32_t add(const std::string& token) {
    const auto [at, is_new] = ids_.emplace(token, static_cast<std::int32_t>(tokens_.size()));
    if (is_new) tokens_.push_back(token);
    return at->second;
  }
  [[nodiscard]] const std::string& token(std::int32_t id) const {
    return tokens_[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] std::int64_t size() const { return std::ssize(tokens_); }
  [[nodiscard]] OrderedJson json() const {
    OrderedJson::object_t object;
    object.reserve(tokens_.size());
    for (std::size_t id = 0; id < tokens_.size(); ++id) object.emplace_back(tokens_[id], id);
    return object;
  }

 private:
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t> ids_;
};

/// Adds the bytes, which ByteLevel's code points order, and returns their ids.
std::array<std::int32_t, kByteTokens> add_bytes(Vocabulary& vocabulary) {
  std::array<std::pair<std::string, std::size_t>, kByteTokens> bytes;
  for (std::size_t byte = 0; byte < kByteTokens; ++byte) {
    const char c = static_cast<char>(byte);
    bytes[byte] = {byte_level_of({&c, 1}), byte};
  }
  std::sort(bytes.begin(), bytes.end());  // bytes of UTF-8 are in the order of code points
  std::array<std::int32_t, kByteTokens> ids{};
  for (const auto& [token, byte] : bytes) ids[byte] = vocabulary.add(token);
  return ids;
}

OrderedJson added_tokens(const Vocabulary& vocabulary, std::size_t special) {
  OrderedJson tokens = OrderedJson::array();
  for (std::size_t id = 0; id < special; ++id) {
    tokens.push_back({{"id", id},
                      {"content", vocabulary.token(static_cast<std::int32_t>(id))},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", true}});
  }
  return tokens;
}

OrderedJson byte_level_json() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", false}};
}

OrderedJson pre_tokenizer_json(SplitPattern pattern) {
  const OrderedJson split = {{"type", "Split"},
                             {"pattern", {{"Regex", regex_of(pattern)}}},
                             {"behavior", "Isolated"},
                             {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", OrderedJson::array({split, byte_level_json()})}};
}

OrderedJson tokenizer_json(const Vocabulary& vocabulary, OrderedJson merges, std::size_t special,
                           SplitPattern pattern) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens(vocabulary, special)},
          {"normalizer", nullptr},
          {"pre_tokenizer", pre_tokenizer_json(pattern)},
          {"post_processor", nullptr},
          {"decoder", byte_level_json()},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocabulary.json()},
            {"merges", std::move(merges)}}}};
}

OrderedJson config_json(const std::string& eos) {
  OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                        {"clean_up_tokenization_spaces", false}};
  if (!eos.empty()) config["eos_token"] = eos;
  return config;
}

std::string file_text(const OrderedJson& json) { return json_text(json, 2) + '\n'; }

}  // namespace

std::string split_names() {
  std::string names;
  for (const NamedSplit& split : kSplits) {
    names += (names.empty() ? "" : ", ") + std::string(split.name);
  }
  return names;
}

PieceCounter::PieceCounter(const std::string& split)
    : pattern_(static_cast<int>(pattern_of(split))), counts_(std::make_unique<PieceCounts>()) {}
PieceCounter::~PieceCounter() = default;
PieceCounter::PieceCounter(PieceCounter&&) noexcept = default;
PieceCounter& PieceCounter::operator=(PieceCounter&&) noexcept = default;

std::size_t PieceCounter::last_cut(std::string_view text) {
  for (std::size_t at = text.rfind('\n'); at != text.npos && at > 0;
       at = text.rfind('\n', at - 1)) {
    const std::string_view behind = text.substr(at + 1);
    // A symbol that the end of the text has cut in two has no category.
    constexpr std::size_t kMostSymbolBytes = 4;
    if (behind.size() >= kMostSymbolBytes && is_letter(decode_utf8(behind.data()).value)) {
      return at + 1;
    }
  }
  return 0;
}

void PieceCounter::count(std::string_view text, std::size_t end) {
  const Splitter splitter = splitter_of(static_cast<SplitPattern>(pattern_));
  const char* const end_of_text = text.data() + text.size();
  for (const char* at = text.data(); at < text.data() + end;) {
    const char* const next = splitter(at, end_of_text);
    counts_->add({at, static_cast<std::size_t>(next - at)});
    at = next;
  }
}

void PieceCounter::add(const PieceCounter& other) { counts_->add(*other.counts_); }

std::size_t PieceCounter::pieces() const { return counts_->size(); }

std::size_t PieceCounter::memory_bytes() const {
  return counts_->memory_bytes() + BpeTrainer::memory_bytes(counts_->size(), counts_->text_bytes());
}

void check_training(const TokenizerTraining& training) {
  static_cast<void>(pattern_of(training.split));
  const std::vector<std::string> special = special_tokens(training);
  for (std::size_t i = 0; i < special.size(); ++i) {
    if (special[i].empty()) throw ConfigError("--special: a token needs a text");
    if (std::find(special.begin(), special.begin() + static_cast<std::ptrdiff_t>(i), special[i]) !=
        special.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw ConfigError("--special: " + printable_name(shortened(special[i])) +
                        " is there twice; leave one out" +
                        (special[i] == training.eos ? " (--eos is a special token)" : ""));
    }
  }
  const std::int64_t least = std::ssize(special) + kByteTokens;
  if (training.vocabulary < least || training.vocabulary > kMostVocabulary) {
    throw ConfigError("--vocab-size: " + std::to_string(training.vocabulary) + " is not between " +
                      std::to_string(least) + ", the special tokens and 256 bytes, and " +
                      std::to_string(kMostVocabulary));
  }
}

TrainedTokenizer train_tokenizer(const PieceCounter& counter, const TokenizerTraining& training,
                                 const std::function<void(std::int64_t)>& on_merge) {
  check_training(training);
  const std::vector<std::string> special = special_tokens(training);
  Vocabulary vocabulary;
  for (const std::string& token : special) vocabulary.add(token);
  BpeTrainer trainer(*counter.counts_, add_bytes(vocabulary));
  OrderedJson merges = OrderedJson::array();
  while (vocabulary.size() < training.vocabulary) {
    const bool merged = trainer.merge_next([&](std::int32_t left, std::int32_t right) {
      const std::string& first = vocabulary.token(left);
      const std::string& second = vocabulary.token(right);
      merges.push_back({first, second});
      return vocabulary.add(first + second);
    });
    if (!merged) break;
    constexpr std::int64_t kMergesBetweenReports = 256;
    if (on_merge && vocabulary.size() % kMergesBetweenReports == 0) on_merge(vocabulary.size());
  }
  const auto n_merges = static_cast<std::int64_t>(merges.size());
  return {.tokenizer_json = file_text(tokenizer_json(vocabulary, std::move(merges), special.size(),
                                                     static_cast<SplitPattern>(counter.pattern_))),
          .tokenizer_config_json = file_text(config_json(training.eos)),
          .vocabulary = vocabulary.size(),
          .merges = n_merges};
}

}  // namespace strata
