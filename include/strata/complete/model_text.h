// The texts of a model: how prompts and conversations become tokens, and drawn tokens become text
// again, piece by piece. Commands that generate own one; several streams may read it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/chat/chat_template.h"
#include "strata/chat/conversation.h"
#include "strata/data/conversation_encoder.h"
#include "strata/tokenizer/tokenizer.h"

namespace strata {

/// Where a model's tokenizer and template come from.
struct ModelTextOptions {
  std::string folder;                         ///< of the model; empty: it has none
  std::string tokenizer{};                    ///< a file or folder instead of the model's
  std::string tokenizer_key = "--tokenizer";  ///< what errors say that the user gives it by
  std::string chat_template{};                ///< a built-in name or a file instead of the model's
  std::int64_t vocabulary = 0;                ///< of the model: 257 without a tokenizer means bytes
};

class ModelText {
 public:
  /// A model without a tokenizer that is not one of bytes has no texts: its tokens become none.
  /// Throws ConfigError if the tokenizer has more ids than the model, or if a template is named for
  /// a model of bytes; IoError and ConfigError as Tokenizer::load and ChatTemplate::load do.
  explicit ModelText(const ModelTextOptions& options);
  ~ModelText();
  ModelText(const ModelText&) = delete;
  ModelText& operator=(const ModelText&) = delete;

  /// Returns the ids of a prompt in UTF-8, with what the tokenizer puts around texts before it.
  /// With `parse_special`, texts of special tokens become these tokens. Throws ConfigError if the
  /// model has no texts.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text, bool parse_special) const;
  /// Returns the ids of a conversation and of the beginning of the assistant's turn. Throws
  /// ConfigError if the model has no template, and as ChatTemplate::render does.
  [[nodiscard]] std::vector<std::int32_t> encode(
      const Conversation& conversation, SpecialTextsOf special = SpecialTextsOf::kTemplate) const;
  /// Returns the ids of a conversation, with what assistants say in it marked as what has loss:
  /// what `tokenize` makes of it. Throws likewise.
  [[nodiscard]] EncodedConversation encode_answers(const Conversation& conversation) const;
  /// Returns the text of ids, without special tokens; what is no UTF-8 becomes U+FFFD.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const;
  /// Returns the id that ends texts, if the tokenizer names one.
  [[nodiscard]] std::optional<std::int32_t> end_token() const;
  /// Returns the id that begins texts, likewise. Where ids are bytes it is the end of the document
  /// before.
  [[nodiscard]] std::optional<std::int32_t> begin_token() const;
  /// Returns how an answer ends; nothing without a tokenizer and a template.
  [[nodiscard]] const TurnEnd& turn_end() const { return turn_end_; }
  /// Returns the text of a token that decode() leaves out; empty for others.
  [[nodiscard]] std::string_view special_text(std::int32_t id) const;
  /// Returns whether texts become tokens, and tokens texts.
  [[nodiscard]] bool has_texts() const { return bytes_ || tokenizer_ != nullptr; }
  /// Returns whether conversations become tokens.
  [[nodiscard]] bool has_template() const { return tokenizer_ && template_; }
  /// Throws ConfigError that says what is missing if conversations do not become tokens.
  void require_template() const;

 private:
  std::string folder_;
  std::unique_ptr<const Tokenizer> tokenizer_;  ///< null: ids are bytes, or nobody knows
  bool bytes_ = false;
  std::optional<ChatTemplate> template_;
  TurnEnd turn_end_;
  std::unique_ptr<EncodeCache> cache_;
};

/// The text of a sequence as its tokens are drawn: whole characters, up to the first of some texts.
class TextStream {
 public:
  /// `text` outlives the stream. `prompt` is what the tokens follow; a decoder may have their text
  /// depend on it. The text ends before the first of `stops`, to which special tokens count by
  /// their texts, though they are not given out.
  TextStream(const ModelText& text, std::span<const std::int32_t> prompt,
             std::vector<std::string> stops);

  /// Adds a token, and returns the text that is certain by now: what might be part of a character
  /// or of a stop is held back.
  [[nodiscard]] std::string add(std::int32_t id);
  /// Returns what was held back, as no token follows.
  [[nodiscard]] std::string finish();
  /// Returns whether a stop was found; nothing may be added then.
  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  [[nodiscard]] std::string decoded(bool last);
  [[nodiscard]] std::size_t cut_of(std::string_view text, bool last, bool& found) const;
  [[nodiscard]] std::string release(bool last);
  void hold(std::string_view text, bool given);
  [[nodiscard]] std::string take(std::size_t bytes);

  const ModelText& text_;
  std::vector<std::string> stops_;
  std::vector<std::int32_t> ids_;  ///< the end of what is known, from some tokens before `shown_`
  std::size_t shown_ = 0;          ///< so many of them have their text in held_ or given out
  std::string held_;
  std::vector<bool> given_;  ///< for each byte of `held_`, whether it is given out
  bool stopped_ = false;
};

}  // namespace strata
