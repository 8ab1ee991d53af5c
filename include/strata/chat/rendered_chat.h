// A conversation as a chat template wrote it, with the place that each character came from. Loss
// depends on it: what an assistant said is learnt, what a template put around it mostly is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace strata {

/// The part of a message that a character comes from.
enum class ChatField : std::uint8_t {
  kNone,       ///< not from a message: the template, or variables such as tools
  kRole,       ///< "role"
  kContent,    ///< "content", also the texts of a list of parts
  kReasoning,  ///< "reasoning_content", or under its older names "thinking" and "reasoning"
  kToolCalls,  ///< "tool_calls"
  kArguments,  ///< what the "arguments" of a tool call hold
  kOther,      ///< any other key
};

/// Where a character comes from.
struct Origin {
  std::int32_t message = -1;  ///< the message's number from 0, or -1 if it is from none
  ChatField field = ChatField::kNone;
  bool generated = false;  ///< stands in a `{% generation %}` block of the template
  bool operator==(const Origin&) const = default;
};

/// Bytes [begin, end) of a text, which all have one origin.
struct TextSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  Origin origin{};
  bool operator==(const TextSpan&) const = default;
};

/// What a template made of a conversation.
struct RenderedChat {
  std::string text;             ///< UTF-8
  std::vector<TextSpan> spans;  ///< covers `text` without gaps, in order; neighbours differ
  /// Whether the template has `{% generation %}` blocks, which say by themselves what is learnt.
  bool marks_generation = false;
};

}  // namespace strata
