// Checks and tidies messages and tools. Data sets that were unified to one schema have null for
// what a message lacks, and files of OpenAI have the arguments of calls as text. Both are undone
// here; what is neither text nor known is refused with its message, member and remedy.

#include "chat/message_reader.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/json.h"

namespace strata::chat {

namespace {

using Json = nlohmann::ordered_json;

void drop_nulls(Json& object, std::string_view kept = {}) {
  if (!object.is_object()) return;
  for (auto member = object.begin(); member != object.end();) {
    const bool drop = member->is_null() && member.key() != kept;
    member = drop ? object.erase(member) : std::next(member);
  }
}

Json* member_of(Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

/// Says whether a role is that of a tool, whose results may be data.
bool is_tool(const Json& message) {
  constexpr std::array<std::string_view, 4> kTools{"tool", "ipython", "function", "observation"};
  const std::string& role = message["role"].get_ref<const std::string&>();
  return std::find(kTools.begin(), kTools.end(), role) != kTools.end();
}

void check_part(const Json& part, const std::string& where) {
  const auto type = part.is_object() ? part.find("type") : part.end();
  if (!part.is_object() || type == part.end() || !type->is_string()) {
    throw IoError(where + ": a part of \"content\" is " + shown(part) +
                  R"(, and must be {"type": "text", "text": ...})");
  }
  if (*type != "text") {
    throw IoError(where + ": \"content\" has a part of type " + shown(*type) +
                  "; only parts of type text can be learnt, so leave the message out");
  }
  const auto text = part.find("text");
  if (text == part.end() || !text->is_string()) {
    throw IoError(where + ": a part of \"content\" has no \"text\", which must be a text");
  }
}

/// Refuses a message without content if it has what it says under another name: a template would
/// find nothing.
void refuse_other_content(Json& message, const std::string& where) {
  if (message.contains("content") || message.contains("tool_calls")) return;
  for (const char* key : {"text", "value", "message"}) {
    const Json* const said = member_of(message, key);
    if (said == nullptr || !said->is_string()) continue;
    throw IoError(where + " has no \"content\"; what it says stands in \"" + key +
                  "\", which has to be called content");
  }
}

void tidy_content(Json& message, const std::string& where) {
  refuse_other_content(message, where);
  Json* const content = member_of(message, "content");
  if (content == nullptr || content->is_null() || content->is_string()) return;
  const bool structured = content->is_array() || content->is_object();
  if (structured && is_tool(message)) return;
  if (!content->is_array()) {
    throw IoError(where + ": \"content\" is " + shown(*content) +
                  ", and must be a text, a list of parts of type text, or null");
  }
  for (Json& part : *content) {
    drop_nulls(part);
    check_part(part, where);
  }
}

void tidy_calls(Json& message, const std::string& where) {
  Json* const calls = member_of(message, "tool_calls");
  if (calls == nullptr) return;
  if (!calls->is_array()) {
    throw IoError(where + ": \"tool_calls\" is " + shown(*calls) + ", and must be a list");
  }
  for (Json& call : *calls) {
    drop_nulls(call);
    if (Json* const function = member_of(call, "function")) drop_nulls(*function);
    const Json* const arguments = arguments_of(call);
    if (arguments != nullptr && !arguments_as_object(*arguments).is_object()) {
      throw IoError(where + ": \"arguments\" of a tool call are " + shown(*arguments) +
                    ", and must be a JSON object or the text of one");
    }
  }
}

}  // namespace

void tidy_message(Json& message, const std::string& where) {
  drop_nulls(message, "content");
  tidy_content(message, where);
  for (const char* key : {"reasoning_content", "thinking", "reasoning"}) {
    const Json* const reasoning = member_of(message, key);
    if (reasoning != nullptr && !reasoning->is_string()) {
      throw IoError(where + ": \"" + key + "\" is " + shown(*reasoning) + ", and must be a text");
    }
  }
  tidy_calls(message, where);
}

void tidy_tools(Json& tools, const std::string& where) {
  if (tools.is_string()) {
    Json read;
    try {
      read = parse_exact_json<Json>(tools.get_ref<const std::string&>());
    } catch (const std::exception& error) {
      throw IoError(where + ": \"tools\" is a text that is no JSON: " + json_problem(error));
    }
    tools = std::move(read);
  }
  if (tools.is_null()) return;
  if (!tools.is_array()) throw IoError(where + ": \"tools\" must be a list, or the text of one");
  for (Json& tool : tools) {
    drop_nulls(tool);
    if (Json* const function = member_of(tool, "function")) drop_nulls(*function);
  }
}

bool is_learnt(const Json& message, const std::string& where) {
  bool learnt = true;
  for (const char* key : {"weight", "train"}) {
    const auto found = message.find(key);
    if (found == message.end()) continue;
    const bool none = *found == 0 || *found == false;
    if (!none && *found != 1 && *found != true) {
      throw IoError(where + ": \"" + key + "\" is " + shown(*found) +
                    ", and must be 0 or 1, or false or true: whether the message has loss");
    }
    learnt &= !none;
  }
  return learnt;
}

bool has_other_forms(const Json& message) {
  const auto content = message.find("content");
  return message.contains("tool_calls") ||
         (content != message.end() && (content->is_null() || is_list_of_texts(*content)));
}

bool is_list_of_texts(const Json& content) {
  return content.is_array() && std::all_of(content.begin(), content.end(), [](const Json& part) {
           return part.is_object() && part.value("type", Json()) == "text" &&
                  part.value("text", Json()).is_string();
         });
}

Json* arguments_of(Json& call) {
  Json* const function = member_of(call, "function");
  return member_of(function != nullptr ? *function : call, "arguments");
}

Json arguments_as_object(const Json& arguments) {
  if (!arguments.is_string()) return arguments;
  const std::string& text = arguments.get_ref<const std::string&>();
  if (text.find_first_not_of(" \t\r\n") == text.npos) return Json::object();  // of no argument
  try {
    return parse_exact_json<Json>(text);
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace strata::chat
