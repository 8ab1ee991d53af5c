// Records of data sets that say in members of their own what others say in "messages": ShareGPT's
// conversations and Alpaca's tasks. They are written anew as conversations, so that templates, loss
// and refusals are those of any conversation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace strata {

/// What a record is.
enum class RecordKind : std::uint8_t {
  kText,      ///< a member of it is a document
  kMessages,  ///< "messages", or "prompt" and "completion"
  kShareGpt,  ///< "conversations": objects with "from" and "value"
  kAlpaca,    ///< "instruction", perhaps with "input", and "output"
  kPair,      ///< "chosen" and "rejected", perhaps with "prompt"
};

/// Two conversations as JSON with "messages", which begin alike.
struct ConversationPair {
  std::string chosen;
  std::string rejected;
};

/// Returns what the log says of records of this kind that were found.
[[nodiscard]] std::string_view mapping_text(RecordKind kind);

/// Returns the conversation that a record of kShareGpt or kAlpaca is, as JSON with "messages".
/// Throws IoError, without file and line, for members that are missing or no texts, and for a role
/// that is not known.
[[nodiscard]] std::string as_conversation(RecordKind kind, std::string_view json);

/// Returns the conversations that a record of kPair is. An answer is a text, a list of messages
/// that go on from the prompt, or one that begins with it. What assistants say in the messages that
/// both begin with is not learnt. Throws as as_conversation() does.
[[nodiscard]] ConversationPair as_pair(std::string_view json);

}  // namespace strata
