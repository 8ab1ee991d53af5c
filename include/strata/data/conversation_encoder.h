// Turns conversations into ids, and says of each id whether its loss counts: one text by a chat
// template, tokenized as one text. docs/fine-tuning.md says which text has loss.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/chat/chat_template.h"
#include "strata/chat/conversation.h"
#include "strata/tokenizer/tokenizer.h"

namespace strata {

/// Says of which tokens the loss counts.
enum class ChatLoss : std::uint8_t {
  kAssistant,   ///< all that assistants say, and the ends of their turns
  kCompletion,  ///< as kAssistant, of the last message alone; nothing if another speaks last
  kAll,         ///< every token, but for messages whose loss does not count
};
/// Reads "assistant", "completion" or "all"; throws ConfigError for anything else.
[[nodiscard]] ChatLoss parse_chat_loss(std::string_view text);

/// Whose texts of special tokens become these tokens.
enum class SpecialTextsOf : std::uint8_t {
  kTemplate,  ///< what the template wrote; in messages they stay text
  kAll,       ///< also what messages say
};

struct EncodedConversation {
  std::string text;                ///< what the template wrote
  std::vector<std::int32_t> ids;   ///< of all of it; nothing is put around
  std::vector<std::uint8_t> loss;  ///< for each id, 1 if its loss counts
  /// Whether any loss counts. A conversation without teaches nothing: the caller should say so.
  [[nodiscard]] bool teaches() const;
};

/// What a template writes behind an assistant's words.
struct TurnEnd {
  std::optional<std::int32_t> id{};  ///< the first added token there; absent: words stand for it
  std::string text{};                ///< that token's or, without white space around, all of it
  bool operator==(const TurnEnd&) const = default;
};

/// Encodes by one tokenizer and one template, which outlive it. It never changes: several threads
/// may encode by it, each with a cache of its own.
class ConversationEncoder {
 public:
  ConversationEncoder(const Tokenizer& tokenizer, const ChatTemplate& chat_template, ChatLoss loss,
                      SpecialTextsOf special = SpecialTextsOf::kTemplate);

  /// Encodes a conversation. Special tokens are parsed in what the template wrote and, only if
  /// that is asked for, in what a message says. The loss of a token counts if it has any text that
  /// is learnt. Throws as ChatTemplate::render does.
  [[nodiscard]] EncodedConversation encode(const Conversation& conversation,
                                           EncodeCache& cache) const;
  /// Returns the ids of a conversation, and of the beginning of an assistant's turn after it, which
  /// the model is to go on from. It parses special tokens and throws as encode() does.
  [[nodiscard]] std::vector<std::int32_t> encode_prompt(const Conversation& conversation,
                                                        EncodeCache& cache) const;
  /// Returns the markers, such as <|im_end|>, that the template writes around a question and its
  /// answer and that are no tokens of the tokenizer: a model would read them as words.
  [[nodiscard]] std::vector<std::string> markers_without_token() const;
  /// Returns how an answer ends, as the template shows it for a question and its answer; no id and
  /// no text where it writes nothing behind answers, or refuses such a conversation.
  [[nodiscard]] TurnEnd turn_end() const;

 private:
  /// Returns what messages say, and the turns of assistants among them, whose loss does not count.
  [[nodiscard]] std::vector<TextRange> muted(const Conversation& conversation,
                                             const RenderedChat& rendered) const;
  [[nodiscard]] std::vector<TextRange> learnt(const Conversation& conversation,
                                              const RenderedChat& rendered) const;
  /// Returns the text in which special tokens are parsed.
  [[nodiscard]] std::vector<TextRange> trusted(const RenderedChat& rendered) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate& template_;
  ChatLoss loss_;
  SpecialTextsOf special_;
  RenderOptions options_;
};

}  // namespace strata
