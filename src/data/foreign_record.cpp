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

using Json = nlohmann::ordered_json;

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
std::string text_of(const Json& object, const char* key, bool may_be_absent) {
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

void add_message(Json& messages, std::string_view role, std::string content) {
  messages.push_back({{"role", role}, {"content", std::move(content)}});
}

/// Returns the message that a turn of ShareGPT is.
Json message_of(const Json& turn) {
  if (!turn.is_object()) throw IoError("an entry of conversations is no object");
  const bool own_names = turn.contains("from") || turn.contains("value");
  const char* const speaker = own_names ? "from" : "role";
  const char* const said = own_names ? "value" : "content";
  Json message{{"role", role_of(text_of(turn, speaker, /*may_be_absent=*/false))},
               {"content", text_of(turn, said, /*may_be_absent=*/false)}};
  for (const auto& [key, value] : turn.items()) {
    if (key != speaker && key != said) message[key] = value;
  }
  return message;
}

Json share_gpt(const Json& record) {
  const auto turns = record.find("conversations");
  if (turns == record.end() || !turns->is_array()) {
    throw IoError("has no list conversations, which a record of ShareGPT's is");
  }
  Json messages = Json::array();
  std::string system = text_of(record, "system", /*may_be_absent=*/true);
  if (!system.empty()) add_message(messages, "system", std::move(system));
  for (const Json& turn : *turns) messages.push_back(message_of(turn));
  return messages;
}

/// Adds what was said before, pairs of a question and its answer.
void add_history(const Json& record, Json& messages) {
  const auto history = record.find("history");
  if (history == record.end() || history->is_null()) return;
  const auto is_pair = [](const Json& turn) {
    return turn.is_array() && turn.size() == 2 && turn[0].is_string() && turn[1].is_string();
  };
  if (!history->is_array()) throw IoError("the field history is no list");
  for (const Json& turn : *history) {
    if (!is_pair(turn)) throw IoError("an entry of history is no pair of texts");
    add_message(messages, "user", turn[0].get<std::string>());
    add_message(messages, "assistant", turn[1].get<std::string>());
  }
}

Json alpaca(const Json& record) {
  Json messages = Json::array();
  std::string system = text_of(record, "system", /*may_be_absent=*/true);
  if (!system.empty()) add_message(messages, "system", std::move(system));
  add_history(record, messages);
  std::string task = text_of(record, "instruction", /*may_be_absent=*/false);
  const std::string input = text_of(record, "input", /*may_be_absent=*/true);
  if (!input.empty()) task += "\n\n" + input;
  add_message(messages, "user", std::move(task));
  add_message(messages, "assistant", text_of(record, "output", /*may_be_absent=*/false));
  return messages;
}

/// Returns a member that is a list of messages, or a text that `role` says, as messages.
Json messages_of(const Json& record, const char* key, const char* role) {
  const auto found = record.find(key);
  if (found != record.end() && found->is_array()) return *found;
  Json messages = Json::array();
  add_message(messages, role, text_of(record, key, /*may_be_absent=*/false));
  return messages;
}

/// Returns the prompt with an answer. A list that does not begin with the assistant has the prompt
/// in it.
Json answered(const Json& record, const char* key, const Json& prompt) {
  Json answer = messages_of(record, key, "assistant");
  const bool goes_on =
      !answer.empty() && answer[0].is_object() && answer[0].value("role", Json()) == "assistant";
  if (!goes_on) return answer;
  if (prompt.empty()) {
    throw IoError(std::string("has no prompt before the answer in ") + key);
  }
  Json messages = prompt;
  for (Json& message : answer) messages.push_back(std::move(message));
  return messages;
}

/// Has the loss of what both conversations begin with not count.
void mute_prompt(Json& chosen, Json& rejected) {
  const std::size_t shorter = std::min(chosen.size(), rejected.size());
  for (std::size_t i = 0; i < shorter && chosen[i] == rejected[i]; ++i) {
    if (!chosen[i].is_object()) return;  // it is refused as a message
    chosen[i]["train"] = false;
    rejected[i]["train"] = false;
  }
}

/// Returns messages as a conversation, with what a record has for templates beside them.
std::string conversation_of(Json messages, const Json& record) {
  Json conversation{{"messages", std::move(messages)}};
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
  const Json record = parse_json<Json>(json);
  return conversation_of(kind == RecordKind::kAlpaca ? alpaca(record) : share_gpt(record), record);
}

ConversationPair as_pair(std::string_view json) {
  const Json record = parse_json<Json>(json);
  const bool has_prompt = record.contains("prompt") && !record["prompt"].is_null();
  const Json prompt = has_prompt ? messages_of(record, "prompt", "user") : Json::array();
  Json chosen = answered(record, "chosen", prompt);
  Json rejected = answered(record, "rejected", prompt);
  mute_prompt(chosen, rejected);
  return {.chosen = conversation_of(std::move(chosen), record),
          .rejected = conversation_of(std::move(rejected), record)};
}

}  // namespace strata
