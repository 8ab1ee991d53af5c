// Writes records of ShareGPT and Alpaca, and pairs of answers, anew as conversations. Members that
// a message has besides its role and text, such as a weight, stay with it. What the mapping does
// not know it refuses: a role that is guessed would be learnt.

#include "data/foreign_record.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/text.h"

namespace strata {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct RoleName {
  std::string_view name;
  std::string_view role;
};
constexpr std::array kRoles{RoleName{"human", "user"},        RoleName{"user", "user"},
                            RoleName{"gpt", "assistant"},     RoleName{"assistant", "assistant"},
                            RoleName{"chatgpt", "assistant"}, RoleName{"bot", "assistant"},
                            RoleName{"model", "assistant"},   RoleName{"system", "system"},
                            RoleName{"tool", "tool"},         RoleName{"observation", "tool"}};

std::string_view role_of(const std::string& name) {
  for (const RoleName& row : kRoles) {
    if (row.name == name) return row.role;
  }
  throw IoError("the speaker " + printable_name(shortened(name)) +
                " is not known; human, gpt, system and tool are. Write it as messages with roles");
}

/// Returns a member that is a text; an empty one where it is absent or null and may be.
std::string member_text(const OrderedJson& object, const char* key, bool may_be_absent) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) {
    if (may_be_absent) return {};
    throw IoError(std::string("has no field ") + key);
  }
  if (!found->is_string()) {
    throw IoError(std::string("the field ") + key +
                  " is no text: " + shortened(printable_name(json_text(*found))));
  }
  return found->get<std::string>();
}

void add_message(OrderedJson& messages, std::string_view role, std::string content) {
  messages.push_back({{"role", role}, {"content", std::move(content)}});
}

/// Returns the message that a turn of ShareGPT is.
OrderedJson message_of(const OrderedJson& turn) {
  if (!turn.is_object()) throw IoError("an entry of conversations is no object");
  const bool own_names = turn.contains("from") || turn.contains("value");
  const char* const speaker = own_names ? "from" : "role";
  const char* const said = own_names ? "value" : "content";
  OrderedJson message{{"role", role_of(member_text(turn, speaker, /*may_be_absent=*/false))},
                      {"content", member_text(turn, said, /*may_be_absent=*/false)}};
  for (const auto& [key, value] : turn.items()) {
    if (key != speaker && key != said) message[key] = value;
  }
  return message;
}

OrderedJson share_gpt(const OrderedJson& record) {
  const auto turns = record.find("conversations");
  if (turns == record.end() || !turns->is_array()) {
    throw IoError("has no list conversations, which a record of ShareGPT's is");
  }
  OrderedJson messages = OrderedJson::array();
  std::string system = member_text(record, "system", /*may_be_absent=*/true);
  if (!system.empty()) add_message(messages, "system", std::move(system));
  for (const OrderedJson& turn : *turns) messages.push_back(message_of(turn));
  return messages;
}

/// Adds what was said before, pairs of a question and its answer.
void add_history(const OrderedJson& record, OrderedJson& messages) {
  const auto history = record.find("history");
  if (history == record.end() || history->is_null()) return;
  const auto is_pair = [](const OrderedJson& turn) {
    return turn.is_array() && turn.size() == 2 && turn[0].is_string() && turn[1].is_string();
  };
  if (!history->is_array()) throw IoError("the field history is no list");
  for (const OrderedJson& turn : *history) {
    if (!is_pair(turn)) throw IoError("an entry of history is no pair of texts");
    add_message(messages, "user", turn[0].get<std::string>());
    add_message(messages, "assistant", turn[1].get<std::string>());
  }
}

OrderedJson alpaca(const OrderedJson& record) {
  OrderedJson messages = OrderedJson::array();
  std::string system = member_text(record, "system", /*may_be_absent=*/true);
  if (!system.empty()) add_message(messages, "system", std::move(system));
  add_history(record, messages);
  std::string task = member_text(record, "instruction", /*may_be_absent=*/false);
  const std::string input = member_text(record, "input", /*may_be_absent=*/true);
  if (!input.empty()) task += "\n\n" + input;
  add_message(messages, "user", std::move(task));
  add_message(messages, "assistant", member_text(record, "output", /*may_be_absent=*/false));
  return messages;
}

/// Returns a member that is a list of messages, or a text that `role` says, as messages.
OrderedJson messages_of(const OrderedJson& record, const char* key, const char* role) {
  const auto found = record.find(key);
  if (found != record.end() && found->is_array()) return *found;
  OrderedJson messages = OrderedJson::array();
  add_message(messages, role, member_text(record, key, /*may_be_absent=*/false));
  return messages;
}

/// Returns the prompt with an answer. A list that does not begin with the assistant has the prompt
/// in it.
OrderedJson answered(const OrderedJson& record, const char* key, const OrderedJson& prompt) {
  OrderedJson answer = messages_of(record, key, "assistant");
  const bool goes_on = !answer.empty() && answer[0].is_object() &&
                       answer[0].value("role", OrderedJson()) == "assistant";
  if (!goes_on) return answer;
  if (prompt.empty()) {
    throw IoError(std::string("has no prompt before the answer in ") + key);
  }
  OrderedJson messages = prompt;
  for (OrderedJson& message : answer) messages.push_back(std::move(message));
  return messages;
}

/// Has the loss of what both conversations begin with not count.
void mute_prompt(OrderedJson& chosen, OrderedJson& rejected) {
  const std::size_t shorter = std::min(chosen.size(), rejected.size());
  for (std::size_t i = 0; i < shorter && chosen[i] == rejected[i]; ++i) {
    if (!chosen[i].is_object()) return;  // it is refused as a message
    chosen[i]["train"] = false;
    rejected[i]["train"] = false;
  }
}

/// Returns messages as a conversation, with what a record has for templates beside them.
std::string conversation_of(OrderedJson messages, const OrderedJson& record) {
  OrderedJson conversation{{"messages", std::move(messages)}};
  for (const char* const kept : {"tools", "documents", "chat_template_kwargs"}) {
    if (record.contains(kept)) conversation[kept] = record[kept];
  }
  return json_text(conversation);
}

}  // namespace

std::string_view mapping_text(RecordKind kind) {
  switch (kind) {
    case RecordKind::kText: return "texts";
    case RecordKind::kMessages: return "conversations";
    case RecordKind::kShareGpt:
      return "ShareGPT's conversations: from human is a user, from gpt an assistant, value what "
             "they say";
    case RecordKind::kPair: return "pairs of a chosen and a rejected answer to a prompt";
    case RecordKind::kAlpaca:
      return "Alpaca's tasks: instruction and, below it, input are a user's, output an assistant's";
  }
  return {};
}

std::string as_conversation(RecordKind kind, std::string_view json) {
  const OrderedJson record = parse_json<OrderedJson>(json);
  return conversation_of(kind == RecordKind::kAlpaca ? alpaca(record) : share_gpt(record), record);
}

ConversationPair as_pair(std::string_view json) {
  const OrderedJson record = parse_json<OrderedJson>(json);
  const bool has_prompt = record.contains("prompt") && !record["prompt"].is_null();
  const OrderedJson prompt =
      has_prompt ? messages_of(record, "prompt", "user") : OrderedJson::array();
  OrderedJson chosen = answered(record, "chosen", prompt);
  OrderedJson rejected = answered(record, "rejected", prompt);
  mute_prompt(chosen, rejected);
  return {.chosen = conversation_of(std::move(chosen), record),
          .rejected = conversation_of(std::move(rejected), record)};
}

}  // namespace strata
