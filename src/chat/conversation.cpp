// Reads conversations from JSON or takes them as texts, and makes values of them for templates,
// each of which knows which message it is from.

#include "strata/chat/conversation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "chat/conversation_data.h"
#include "chat/message_reader.h"
#include "chat/print.h"
#include "chat/whole_number.h"
#include "strata/base/json.h"

namespace strata {

namespace {

using Json = nlohmann::ordered_json;

Json parse_value(std::string_view text, const std::string& name) {
  try {
    return parse_exact_json<Json>(text);
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
    const bool share_gpt = message.contains("from") && message.contains("value");
    throw IoError(where + " has no \"role\", which says who speaks" +
                  (share_gpt ? "; with from and value, as ShareGPT has them, the list has to be "
                               "called conversations"
                             : ""));
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
    data->tools = parsed.value("tools", Json());
    chat::tidy_tools(data->tools, name);
    data->documents = take(parsed, "documents", Json::value_t::array, name);
    Json variables = take(parsed, "chat_template_kwargs", Json::value_t::object, name);
    if (!variables.is_null()) data->variables = std::move(variables);
  } else {
    data->messages = std::move(parsed);
  }
  if (!data->messages.is_array()) {
    throw IoError(name + ": is neither a list of messages nor an object with \"messages\"");
  }
  for (Json& message : data->messages) {
    const std::size_t number = data->roles.size();
    data->roles.push_back(role_of(message, number, name));
    chat::tidy_message(message, name + ": message " + std::to_string(number));
    data->learnt.push_back(chat::is_learnt(message, name + ": message " + std::to_string(number)));
    data->has_other_forms |= chat::has_other_forms(message);
  }
  return Conversation(std::move(data));
}

Conversation Conversation::of(const std::vector<ChatMessage>& messages) {
  constexpr std::size_t kBytesAroundMessage = 26;  // keys, quotes and braces of its JSON
  auto data = std::make_unique<Data>();
  data->messages = Json::array();
  data->variables = Json::object();
  for (const ChatMessage& message : messages) {
    data->messages.push_back({{"role", message.role}, {"content", message.content}});
    data->roles.push_back(message.role);
    data->learnt.push_back(true);
    data->bytes += message.role.size() + message.content.size() + kBytesAroundMessage;
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

bool Conversation::is_learnt(std::size_t message) const { return data_->learnt.at(message); }

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

/// Templates may go through arguments and write each as they like, but not all of them as one text.
Value to_arguments(Heap& heap, const Json& arguments, Origin origin) {
  Value value =
      to_value(heap, arguments, {.message = origin.message, .field = ChatField::kArguments});
  value.origin = origin;
  return value;
}

Value to_dict(Heap& heap, const Json& json, Origin origin) {
  Dict* const dict = heap.own(Dict{});
  heap.charge(json.size() * 2 * sizeof(Value));
  for (const auto& [key, value] : json.items()) {
    const bool arguments = origin.field == ChatField::kToolCalls && key == "arguments";
    if (arguments && value.is_object()) {
      dict->items.emplace_back(heap.text(key, origin), to_arguments(heap, value, origin));
    } else {
      dict->items.emplace_back(heap.text(key, origin), to_value(heap, value, origin));
    }
  }
  return {.data = dict, .origin = origin};
}

Value to_integer(const Json& json, Origin origin) {
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool beyond = json.is_number_unsigned() && json.get<std::uint64_t>() > kLargest;
  if (!beyond) return {.data = json.get<std::int64_t>(), .origin = origin};
  return whole_number(std::to_string(json.get<std::uint64_t>()), origin);
}

/// Returns a number beyond 64 bits, which parse_exact_json() gives as digits.
Value to_large(Heap& heap, const Json::binary_t& digits, Origin origin) {
  heap.charge(digits.size());
  return whole_number(std::string(digits.begin(), digits.end()), origin);
}

Value to_value(Heap& heap, const Json& json, Origin origin) {
  switch (json.type()) {
    case Json::value_t::string: return heap.text(json.get_ref<const std::string&>(), origin);
    case Json::value_t::array: return to_list(heap, json, origin);
    case Json::value_t::object: return to_dict(heap, json, origin);
    case Json::value_t::boolean: return {.data = json.get<bool>(), .origin = origin};
    case Json::value_t::null: return {.data = None{}, .origin = origin};
    case Json::value_t::number_float: return {.data = json.get<double>(), .origin = origin};
    case Json::value_t::binary: return to_large(heap, json.get_binary(), origin);
    default: return to_integer(json, origin);
  }
}

ChatField field_of(std::string_view key) {
  if (key == "role") return ChatField::kRole;
  if (key == "content") return ChatField::kContent;
  if (key == "tool_calls") return ChatField::kToolCalls;
  const bool reasoning = std::find(kReasoning.begin(), kReasoning.end(), key) != kReasoning.end();
  return reasoning ? ChatField::kReasoning : ChatField::kOther;
}

/// Adds reasoning under the names that templates look for, where transformers puts it: `thinking`
/// becomes the first member, `reasoning_content` stays where it is or becomes the last.
void add_reasoning(Heap& heap, Dict& message) {
  const auto held = std::find_if(kReasoning.begin(), kReasoning.end(), [&](std::string_view key) {
    return find(message, key) != nullptr;
  });
  if (held == kReasoning.end()) return;
  const Value reasoning = *find(message, *held);
  const Value* const known = find(message, "thinking");
  const Value thinking = known != nullptr ? *known : reasoning;
  std::erase_if(message.items,
                [](const auto& item) { return item.first.text().bytes() == "thinking"; });
  message.items.insert(message.items.begin(), {heap.text("thinking"), thinking});
  heap.set(message, heap.text("reasoning_content"), reasoning);
}

/// Returns a content as one text: of parts what they say, of nothing an empty one.
Value content_as_text(Heap& heap, const Json& content, Origin origin) {
  if (content.is_null()) return heap.text("", origin);
  if (!is_list_of_texts(content)) return to_value(heap, content, origin);
  TextBuilder text(heap);
  for (const Json& part : content) text.append(part["text"].get_ref<const std::string&>(), origin);
  return text.value();
}

/// Returns the calls of a message, their arguments as objects or as the text of them.
Value to_calls(Heap& heap, Json calls, Origin origin, Form form) {
  for (Json& call : calls) {
    Json* const arguments = arguments_of(call);
    if (arguments == nullptr) continue;
    if (form != Form::kAllTexts) {
      *arguments = arguments_as_object(*arguments);
    } else if (!arguments->is_string()) {
      const Value text = to_json(heap, to_value(heap, *arguments, origin), {});
      *arguments = text.text().bytes();
    }
  }
  return to_value(heap, calls, origin);
}

Value to_member(Heap& heap, const Json& value, Origin origin, Form form) {
  if (origin.field == ChatField::kToolCalls) return to_calls(heap, value, origin, form);
  if (origin.field == ChatField::kContent && form != Form::kAsWritten) {
    return content_as_text(heap, value, origin);
  }
  return to_value(heap, value, origin);
}

Value to_message(Heap& heap, const Json& json, std::int32_t number, Form form) {
  Dict* const dict = heap.own(Dict{});
  const Origin whole{.message = number, .field = ChatField::kOther};
  for (const auto& [key, value] : json.items()) {
    const Origin origin{.message = number, .field = field_of(key)};
    dict->items.emplace_back(heap.text(key, whole), to_member(heap, value, origin, form));
  }
  const bool silent_call = json.contains("tool_calls") && !json.contains("content");
  if (silent_call && form != Form::kAsWritten) heap.set(*dict, heap.text("content"), heap.text(""));
  add_reasoning(heap, *dict);
  return {.data = dict, .origin = whole};
}

}  // namespace

Variables variables_of(Heap& heap, const Conversation::Data& conversation,
                       const RenderOptions& options, Form form) {
  const std::size_t count = std::min(options.first_messages.value_or(conversation.roles.size()),
                                     conversation.roles.size());
  std::vector<Value> messages;
  for (std::size_t i = 0; i < count; ++i) {
    messages.push_back(
        to_message(heap, conversation.messages[i], static_cast<std::int32_t>(i), form));
  }
  Variables variables;
  for (const TextVariable& token : options.other_tokens) {
    variables.emplace_back(token.name, heap.text(token.text));
  }
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
