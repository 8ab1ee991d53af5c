// Makes the encoders of make_document_encoder(), which tokenize() calls once: one by bytes, one by
// a model's tokenizer and template. Threads share one; each has a cache of its own.

#include "data/document_encoder.h"

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/chat/chat_template.h"
#include "strata/chat/conversation.h"
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
  [[nodiscard]] EncodedConversation encode_conversation(std::string_view /*record*/,
                                                        EncodeCache& /*cache*/) const override {
    throw IoError(
        "is a conversation, whose markers are tokens of a model: name that by --tokenizer, or a "
        "member that is a text by --text-field");
  }
  [[nodiscard]] const Tokenizer* tokenizer() const override { return nullptr; }
};

/// Returns the id to put at an end of each document, or nothing. `id` is what the tokenizer names
/// for it, and `by_default` whether it is put there if nobody says.
std::optional<std::int32_t> chosen(PutToken put, std::optional<std::int32_t> id, bool by_default,
                                   const std::string& option, const std::string& key,
                                   const std::string& tokenizer) {
  if (put == PutToken::kNever || (put == PutToken::kAuto && !by_default)) return std::nullopt;
  if (put == PutToken::kAlways && !id) {
    throw ConfigError(option + ": no file of " + tokenizer + " names such a token; give its " +
                      key + " in tokenizer_config.json, or take \"no\"");
  }
  return id;
}

/// The template that conversations are written by, or why there is none.
class Conversations {
 public:
  Conversations(const TokenizeOptions& options, const Tokenizer& tokenizer) {
    find_template(options);
    if (!template_) return;
    encoder_.emplace(tokenizer, *template_, options.loss,
                     options.parse_special ? SpecialTextsOf::kAll : SpecialTextsOf::kTemplate);
    std::string missing;
    for (const std::string& marker : encoder_->markers_without_token()) {
      missing += (missing.empty() ? "" : ", ") + shortened(printable_name(marker));
    }
    if (!missing.empty()) {
      warnings_.push_back("tokenize: the chat template writes " + missing +
                          ", for which the tokenizer has no token: models read them as words. Name "
                          "the template that the model was made for, or make tokens of them by "
                          "strata tokenizer add");
    }
    if (encoder_->turn_end().id) return;
    warnings_.emplace_back(
        "tokenize: the chat template ends answers with no token of the tokenizer, so that programs "
        "need to be told where an answer of the trained model stops");
  }

  EncodedConversation encode(std::string_view record, EncodeCache& cache) const {
    if (!encoder_) throw IoError("is a conversation, and " + why_none_);
    std::call_once(warned_, [this] {
      for (const std::string& warning : warnings_) log::warn("{}", warning);
    });
    return encoder_->encode(Conversation::parse(record, "the conversation"), cache);
  }

 private:
  /// A model's own template that cannot be read matters only when there is a conversation.
  void find_template(const TokenizeOptions& options) {
    if (!options.chat_template.empty()) {
      template_ = ChatTemplate::load(options.chat_template);
      return;
    }
    try {
      template_ = ChatTemplate::of_model(options.tokenizer);
      why_none_ = options.tokenizer + " has no chat template; name one by --chat-template";
    } catch (const IoError& error) {
      why_none_ = std::string("the template of the model is not read: ") + error.what() +
                  "; name one by --chat-template";
    }
  }

  std::optional<ChatTemplate> template_;
  std::string why_none_;
  std::optional<ConversationEncoder> encoder_;
  std::vector<std::string> warnings_;
  mutable std::once_flag warned_;
};

class ModelEncoder final : public DocumentEncoder {
 public:
  explicit ModelEncoder(const TokenizeOptions& options)
      : tokenizer_(Tokenizer::load(options.tokenizer)),
        conversations_(options, *tokenizer_),
        parse_special_(options.parse_special) {
    const SpecialTokens& special = tokenizer_->special_tokens();
    begin_ = chosen(options.bos, special.bos, special.begins_texts, "--bos", "bos_token",
                    options.tokenizer);
    end_ = chosen(options.eos, special.eos, special.eos.has_value(), "--eos", "eos_token",
                  options.tokenizer);
    if (!end_ && options.eos == PutToken::kAuto) {
      without_end_ = "tokenize: documents end with no token, since no file of " +
                     printable_name(options.tokenizer) +
                     " names one: a model will not see where they end. Give its eos_token in "
                     "tokenizer_config.json, or say --eos no";
    }
  }
  [[nodiscard]] TokenFileWriter::Format format() const override {
    return {.type = token_type_for(tokenizer_->vocabulary()),
            .vocabulary = tokenizer_->vocabulary(),
            .tokenizer_hash = tokenizer_->hash()};
  }
  void encode(std::string_view text, EncodeCache& cache,
              std::vector<std::int32_t>& ids) const override {
    warn_of(text);
    if (begin_) ids.push_back(*begin_);
    const std::size_t first = ids.size();
    tokenizer_->encode(text, {.parse_special = parse_special_}, cache, ids);
    // What begins or ends with such a token itself gets no second one.
    const bool is_empty = ids.size() == first;
    if (end_ && (is_empty || ids.back() != *end_)) ids.push_back(*end_);
    if (begin_ && !is_empty && ids[first] == *begin_) {
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(first));
    }
  }
  [[nodiscard]] EncodedConversation encode_conversation(std::string_view record,
                                                        EncodeCache& cache) const override {
    return conversations_.encode(record, cache);
  }
  [[nodiscard]] const Tokenizer* tokenizer() const override { return tokenizer_.get(); }

 private:
  /// Says once each what is probably not meant: no end, and texts that should have been tokens.
  void warn_of(std::string_view text) const {
    if (!without_end_.empty()) std::call_once(warned_, [this] { log::warn("{}", without_end_); });
    if (parse_special_) return;
    const auto kept_text = [&](std::optional<std::int32_t> id) {
      return id && tokenizer_->is_special(*id) ? tokenizer_->token(*id) : std::string_view();
    };
    const std::string_view begin = kept_text(begin_);
    const std::string_view end = kept_text(end_);
    const bool begins = !begin.empty() && text.starts_with(begin);
    if (!begins && (end.empty() || !text.ends_with(end))) return;
    std::call_once(warned_of_text_, [&] {
      log::warn(
          "tokenize: a document {} with {}, which stays text beside the token that is put there; "
          "say --parse-special to take such texts for tokens",
          begins ? "begins" : "ends", begins ? begin : end);
    });
  }

  std::unique_ptr<const Tokenizer> tokenizer_;
  Conversations conversations_;
  bool parse_special_;
  std::optional<std::int32_t> begin_;
  std::optional<std::int32_t> end_;
  std::string without_end_;  ///< the warning that documents have none; empty: they have
  mutable std::once_flag warned_;
  mutable std::once_flag warned_of_text_;
};

}  // namespace

std::unique_ptr<DocumentEncoder> make_document_encoder(const TokenizeOptions& options) {
  if (!options.tokenizer.empty()) return std::make_unique<ModelEncoder>(options);
  if (options.bos != PutToken::kAuto || options.eos != PutToken::kAuto || options.parse_special) {
    throw ConfigError(
        "tokenize: --bos, --eos and --parse-special are for --tokenizer; the byte tokenizer has no "
        "special token but the end of a document, which it always writes");
  }
  if (!options.chat_template.empty() || options.loss != ChatLoss::kAssistant) {
    throw ConfigError(
        "tokenize: --chat-template and --loss are for --tokenizer; the byte tokenizer has no "
        "tokens for the markers of conversations");
  }
  return std::make_unique<ByteEncoder>();
}

}  // namespace strata
