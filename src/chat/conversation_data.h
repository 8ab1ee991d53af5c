// What a conversation holds, as JSON values, and the variables that templates get of it.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chat/heap.h"
#include "chat/interpreter.h"
#include "strata/chat/chat_template.h"
#include "strata/chat/conversation.h"

namespace strata {

struct Conversation::Data {
  nlohmann::ordered_json messages;   ///< a list of objects
  nlohmann::ordered_json tools;      ///< null if there are none
  nlohmann::ordered_json documents;  ///< null if there are none
  nlohmann::ordered_json variables;  ///< an object
  std::vector<std::string> roles;    ///< of the messages
  std::vector<bool> learnt;          ///< whether the loss of a message may count
  bool has_other_forms = false;      ///< whether the forms of it differ, see chat::Form
  std::size_t bytes = 0;  ///< about those of its JSON text, which limit a template's work
};

namespace chat {

/// In which form a template gets what a message holds that is no text. Templates want one of them:
/// those that know of parts and calls the first, those that only add texts up the last.
enum class Form {
  kAsWritten,     ///< contents as data sets have them, arguments of calls as objects
  kContentTexts,  ///< contents as texts: parts joined, null as nothing
  kAllTexts,      ///< arguments of calls as JSON, too
};

/// Returns the variables of a template: messages, tools, documents, add_generation_prompt, the
/// special tokens that are given, and those of the conversation itself.
[[nodiscard]] Variables variables_of(Heap& heap, const Conversation::Data& conversation,
                                     const RenderOptions& options, Form form);

}  // namespace chat
}  // namespace strata
