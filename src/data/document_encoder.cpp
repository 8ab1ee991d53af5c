#include "data/document_encoder.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/data/byte_tokenizer.h"
#include "strata/tokenizer/tokenizer.h"

namespace strata {

namespace {

class ByteEncoder final : public DocumentEncoder {
 public:
  [[nodiscard]] TokenFileWriter::Format format() const override {
    return {.type = token_type_for(ByteTokenizer::kVocabulary),
            .vocabulary = ByteTokenizer::kVocabulary,
            .tokenizer_hash = ByteTokenizer::hash()};
  }
  void encode(std::string_view text, EncodeCache& /*cache*/,
              std::vector<std::int32_t>& ids) const override {
    ByteTokenizer::encode(text, ids);
    ids.push_back(ByteTokenizer::kEndOfDocument);
  }
};

/// Returns the id to put at an end of each document, or nothing. `id` is what the tokenizer names
/// for it, and `by_default` whether it is put there if nobody says.
std::optional<std::int32_t> chosen(PutToken put, std::optional<std::int32_t> id, bool by_default,
                                   const std::string& option, const std::string& key,
                                   const std::string& tokenizer) {
  if (put == PutToken::kNever || (put == PutToken::kAuto && !by_default)) return std::nullopt;
  if (put == PutToken::kAlways && !id) {
    throw ConfigError(option + ": " + tokenizer + " names no such token; give its " + key +
                      " in tokenizer_config.json, or take \"no\"");
  }
  return id;
}

class ModelEncoder final : public DocumentEncoder {
 public:
  explicit ModelEncoder(const TokenizeOptions& options)
      : tokenizer_(Tokenizer::load(options.tokenizer)), parse_special_(options.parse_special) {
    const SpecialTokens& special = tokenizer_->special_tokens();
    begin_ = chosen(options.bos, special.bos, special.begins_texts, "--bos", "bos_token",
                    options.tokenizer);
    end_ = chosen(options.eos, special.eos, special.eos.has_value(), "--eos", "eos_token",
                  options.tokenizer);
  }
  [[nodiscard]] TokenFileWriter::Format format() const override {
    return {.type = token_type_for(tokenizer_->vocabulary()),
            .vocabulary = tokenizer_->vocabulary(),
            .tokenizer_hash = tokenizer_->hash()};
  }
  void encode(std::string_view text, EncodeCache& cache,
              std::vector<std::int32_t>& ids) const override {
    if (begin_) ids.push_back(*begin_);
    tokenizer_->encode(text, {.parse_special = parse_special_}, cache, ids);
    if (end_) ids.push_back(*end_);
  }

 private:
  std::unique_ptr<const Tokenizer> tokenizer_;
  bool parse_special_;
  std::optional<std::int32_t> begin_;
  std::optional<std::int32_t> end_;
};

}  // namespace

std::unique_ptr<DocumentEncoder> make_document_encoder(const TokenizeOptions& options) {
  if (!options.tokenizer.empty()) return std::make_unique<ModelEncoder>(options);
  if (options.bos != PutToken::kAuto || options.eos != PutToken::kAuto || options.parse_special) {
    throw ConfigError(
        "tokenize: --bos, --eos and --parse-special are for --tokenizer; the byte tokenizer has no "
        "special token but the end of a document, which it always writes");
  }
  return std::make_unique<ByteEncoder>();
}

}  // namespace strata
