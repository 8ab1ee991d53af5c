// Reads conversations, and makes values of them that know which message they are from.

#include "strata/chat/conversation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "chat/conversation_data.h"
#include "strata/base/json.h"

namespace strata {

namespace {

using Json = nlohmann::ordered_json;

Json parse_value(std::string_view text, const std::string& name) {
  try {
    return parse_json<Json>(text);
  } catch (const Json::exception& error) {
    throw IoError(name + ": is no JSON: " + json_problem(error));
  } catch (const ConfigError& error) {
    throw IoError(name + ": " + error.what());
  }
}

/// Returns an entry, or null if there is none. Throws if it is neither null nor of the type.
Json take(Json& object, const char* key, Json::value_t type, const std::string& name) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return nullptr;
  if (found->type() != type) {
    throw IoError(name + ": \"" + key + "\" must be " +
                  (type == Json::value_t::array ? "a list" : "an object"));
  }
  return std::move(*found);
}

std::string role_of(const Json& message, std::size_t number, const std::string& name) {
  const std::string where = name + ": message " + std::to_string(number);
  if (!message.is_object()) throw IoError(where + " is no object with a \"role\"");
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) {
    throw IoError(where + " has no \"role\", which says who speaks");
  }
  return role->get<std::string>();
}

/// Returns "prompt" or "completion" as a list of messages; a text is one message of `role`.
Json messages_of(Json& object, const char* key, const char* role, const std::string& name) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_array()) return std::move(*found);
  if (found != object.end() && found->is_string()) {
    return Json::array({Json{{"role", role}, {"content", std::move(*found)}}});
  }
  throw IoError(name + ": \"" + key + "\" must be a text or a list of messages");
}

/// Returns the messages of an object that has "prompt" and "completion" instead of "messages".
Json take_pair(Json& object, const std::string& name) {
  Json messages = messages_of(object, "prompt", "user", name);
  for (Json& message : messages_of(object, "completion", "assistant", name)) {
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace

Conversation Conversation::parse(std::string_view json, const std::string& name) {
  auto data = std::make_unique<Data>();
  data->bytes = json.size();
  data->variables = Json::object();
  Json parsed = parse_value(json, name);
  if (parsed.is_object()) {
    data->messages = take(parsed, "messages", Json::value_t::array, name);
    if (data->messages.is_null() && parsed.contains("prompt")) {
      data->messages = take_pair(parsed, name);
    }
    data->tools = take(parsed, "tools", Json::value_t::array, name);
    data->documents = take(parsed, "documents", Json::value_t::array, name);
    Json variables = take(parsed, "chat_template_kwargs", Json::value_t::object, name);
    if (!variables.is_null()) data->variables = std::move(variables);
  } else {
    data->messages = std::move(parsed);
  }
  if (!data->messages.is_array()) {
    throw IoError(name + ": is neither a list of messages nor an object with \"messages\"");
  }
  for (const Json& message : data->messages) {
    data->roles.push_back(role_of(message, data->roles.size(), name));
  }
  return Conversation(std::move(data));
}

Conversation::Conversation(std::unique_ptr<const Data> data) : data_(std::move(data)) {}
Conversation::Conversation(Conversation&&) noexcept = default;
Conversation& Conversation::operator=(Conversation&&) noexcept = default;
Conversation::~Conversation() = default;

std::size_t Conversation::size() const { return data_->roles.size(); }
const std::string& Conversation::role(std::size_t message) const {
  return data_->roles.at(message);
}

namespace chat {

namespace {

/// The keys that reasoning has been given under; the first one is the one that counts.
constexpr std::array<std::string_view, 3> kReasoning{"reasoning_content", "thinking", "reasoning"};

Value to_value(Heap& heap, const Json& json, Origin origin);

Value to_list(Heap& heap, const Json& json, Origin origin) {
  std::vector<Value> items;
  for (const Json& item : json) items.push_back(to_value(heap, item, origin));
  return heap.list(std::move(items), origin);
}

Value to_dict(Heap& heap, const Json& json, Origin origin) {
  Dict* const dict = heap.own(Dict{});
  heap.charge(json.size() * 2 * sizeof(Value));
  for (const auto& [key, value] : json.items()) {
    dict->items.emplace_back(heap.text(key, origin), to_value(heap, value, origin));
  }
  return {.data = dict, .origin = origin};
}

/// Numbers that do not fit 64 bits become the nearest float.
Value to_number(const Json& json, Origin origin) {
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool too_large = json.is_number_unsigned() && json.get<std::uint64_t>() > kLargest;
  if (json.is_number_float() || too_large) return {.data = json.get<double>(), .origin = origin};
  return {.data = json.get<std::int64_t>(), .origin = origin};
}

Value to_value(Heap& heap, const Json& json, Origin origin) {
  switch (json.type()) {
    case Json::value_t::string: return heap.text(json.get_ref<const std::string&>(), origin);
    case Json::value_t::array: return to_list(heap, json, origin);
    case Json::value_t::object: return to_dict(heap, json, origin);
    case Json::value_t::boolean: return {.data = json.get<bool>(), .origin = origin};
    case Json::value_t::null: return {.data = None{}, .origin = origin};
    default: return to_number(json, origin);
  }
}

ChatField field_of(std::string_view key) {
  if (key == "role") return ChatField::kRole;
  if (key == "content") return ChatField::kContent;
  if (key == "tool_calls") return ChatField::kToolCalls;
  const bool reasoning = std::find(kReasoning.begin(), kReasoning.end(), key) != kReasoning.end();
  return reasoning ? ChatField::kReasoning : ChatField::kOther;
}

/// Adds reasoning under the names that templates look for, as transformers does.
void add_reasoning(Heap& heap, Dict& message) {
  Value reasoning{.data = None{}};
  for (const std::string_view key : kReasoning) {
    const Value* found = find(message, key);
    if (found != nullptr && !found->is<None>()) {
      reasoning = *found;
      break;
    }
  }
  if (reasoning.is<None>()) return;
  if (find(message, "thinking") == nullptr) {
    message.items.insert(message.items.begin(), {heap.text("thinking"), reasoning});
  }
  heap.set(message, heap.text("reasoning_content"), reasoning);
}

Value to_message(Heap& heap, const Json& json, std::int32_t number) {
  Dict* const dict = heap.own(Dict{});
  const Origin whole{.message = number, .field = ChatField::kOther};
  for (const auto& [key, value] : json.items()) {
    const Origin origin{.message = number, .field = field_of(key)};
    dict->items.emplace_back(heap.text(key, whole), to_value(heap, value, origin));
  }
  add_reasoning(heap, *dict);
  return {.data = dict, .origin = whole};
}

}  // namespace

Variables variables_of(Heap& heap, const Conversation::Data& conversation,
                       const RenderOptions& options) {
  const std::size_t count = std::min(options.first_messages.value_or(conversation.roles.size()),
                                     conversation.roles.size());
  std::vector<Value> messages;
  for (std::size_t i = 0; i < count; ++i) {
    messages.push_back(to_message(heap, conversation.messages[i], static_cast<std::int32_t>(i)));
  }
  Variables variables;
  variables.emplace_back("messages", heap.list(std::move(messages)));
  variables.emplace_back("tools", to_value(heap, conversation.tools, {}));
  variables.emplace_back("documents", to_value(heap, conversation.documents, {}));
  variables.emplace_back("add_generation_prompt", Value{.data = options.add_generation_prompt});
  if (options.bos_token) variables.emplace_back("bos_token", heap.text(*options.bos_token));
  if (options.eos_token) variables.emplace_back("eos_token", heap.text(*options.eos_token));
  for (const auto& [key, value] : conversation.variables.items()) {
    variables.emplace_back(key, to_value(heap, value, {}));
  }
  return variables;
}

}  // namespace chat
}  // namespace strata
