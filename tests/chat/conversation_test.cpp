// Conversations are read as data sets write them, and what is none is refused by name.

#include "strata/chat/conversation.h"

#include <string>
#include <string_view>
#include <vector>

#include "strata/base/json.h"
#include "strata/chat/chat_template.h"
#include "support/catch.h"

namespace strata {
namespace {

std::string chat_problem(const std::string& json) {
  try {
    (void)Conversation::parse(json, "chats.jsonl:7");
  } catch (const IoError& error) {
    return error.what();
  }
  return "none";
}

std::string render(const std::string& source, const std::string& json) {
  return ChatTemplate::parse(source, "test").render(Conversation::parse(json, "test"), {}).text;
}

}  // namespace

TEST_CASE("a conversation is a list of messages, or an object that has one") {
  const auto list = Conversation::parse(R"([{"role": "user", "content": "a"}])", "test");
  CHECK(list.size() == 1);
  CHECK(list.role(0) == "user");
  const auto object = Conversation::parse(
      R"({"id": 7, "messages": [{"role": "user"}, {"role": "assistant"}], "tools": null})", "test");
  CHECK(object.size() == 2);
  CHECK(object.role(1) == "assistant");
}

TEST_CASE("a conversation of texts renders as the JSON of its messages does") {
  const std::vector<ChatMessage> messages{
      {.role = "system", .content = "Say \"yes\".\n\t"},
      {.role = "user", .content = "caf\xC3\xA9 {{ 1 }} \\n \x1b[0m"},
      {.role = "assistant", .content = ""}};
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ChatMessage& message : messages) {
    json.push_back({{"role", message.role}, {"content", message.content}});
  }
  const Conversation made = Conversation::of(messages);
  const Conversation parsed = Conversation::parse(json_text(json), "test");
  REQUIRE(made.size() == parsed.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    CHECK(made.role(i) == parsed.role(i));
    CHECK(made.is_learnt(i) == parsed.is_learnt(i));
  }
  RenderOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  std::vector<std::string> sources;
  for (const std::string_view name : ChatTemplate::built_in_names()) {
    sources.emplace_back(ChatTemplate::built_in(name).source());
  }
  sources.emplace_back("{{ messages | tojson }}{{ tools is none }}{{ documents is none }}");
  for (const std::string& source : sources) {
    const ChatTemplate chat_template = ChatTemplate::parse(source, "test");
    CHECK(chat_template.render(made, options).text == chat_template.render(parsed, options).text);
  }
}

TEST_CASE("what is no conversation is refused with its place") {
  CHECK_THAT(chat_problem("{"), ContainsSubstring("chats.jsonl:7: is no JSON"));
  CHECK_THAT(chat_problem("{}"), ContainsSubstring("neither a list of messages"));
  CHECK_THAT(chat_problem("7"), ContainsSubstring("neither a list of messages"));
  CHECK_THAT(chat_problem(R"({"messages": {}})"), ContainsSubstring("\"messages\" must be a list"));
  CHECK_THAT(chat_problem(R"({"messages": [], "tools": 1})"), ContainsSubstring("\"tools\" must"));
  CHECK_THAT(chat_problem(R"([{"role": "user"}, "x"])"),
             ContainsSubstring("message 1 is no object"));
  CHECK_THAT(chat_problem(R"([{"content": "x"}])"), ContainsSubstring("message 0 has no \"role\""));
  CHECK_THAT(chat_problem(R"([{"from": "human", "value": "x"}])"),
             ContainsSubstring("the list has to be called conversations"));
  CHECK_THAT(chat_problem(R"([{"role": "user", "text": "x"}])"),
             ContainsSubstring("message 0 has no \"content\"; what it says stands in \"text\""));
  CHECK(chat_problem(R"([{"role": "assistant", "text": "x", "tool_calls": []}])") == "none");
  CHECK_THAT(chat_problem(std::string(100, '[') + std::string(100, ']')),
             ContainsSubstring("levels deep"));
}

TEST_CASE("tools, documents and variables reach the template") {
  CHECK(render("{{ tools[0].name }} {{ documents is none }} {{ mode }} {{ bos_token is defined }}",
               R"({"messages": [], "tools": [{"name": "f"}],
                   "chat_template_kwargs": {"mode": "fast"}})") == "f True fast False");
  CHECK(render("{{ tools }}", "[]") == "None");
}

TEST_CASE("what is no text is refused by message and member") {
  const auto problem = [](const std::string& members) {
    return chat_problem(R"([{"role": "user", "content": "a"}, {"role": "user", )" + members + "}]");
  };
  CHECK_THAT(problem(R"("content": 3)"),
             ContainsSubstring("message 1: \"content\" is 3, and must be a text"));
  CHECK_THAT(problem(R"("content": {"a": 1})"), ContainsSubstring("and must be a text"));
  CHECK_THAT(problem(R"("content": [{"type": "image_url"}])"),
             ContainsSubstring("a part of type \"image_url\"; only parts of type text"));
  CHECK_THAT(problem(R"("content": ["a"])"), ContainsSubstring("a part of \"content\" is \"a\""));
  CHECK_THAT(problem(R"("content": [{"type": "text", "text": null}])"),
             ContainsSubstring("has no \"text\""));
  CHECK_THAT(problem(R"("reasoning": ["a"])"), ContainsSubstring("\"reasoning\" is [\"a\"]"));
  CHECK_THAT(problem(R"("tool_calls": {})"), ContainsSubstring("\"tool_calls\" is {}"));
  CHECK_THAT(
      problem(R"("tool_calls": [{"function": {"arguments": "{"}}])"),
      ContainsSubstring("\"arguments\" of a tool call are \"{\", and must be a JSON object"));
  CHECK_THAT(chat_problem(R"({"messages": [], "tools": "[1"})"),
             ContainsSubstring("\"tools\" is a text that is no JSON"));
  CHECK_THAT(chat_problem(std::string(R"([{"role": "user", "content": "a"}])") + '\0' + "x"),
             ContainsSubstring("is no JSON") && ContainsSubstring("NUL"));
}

TEST_CASE("a result that is data is written as JSON, or not at all") {
  const std::string result = R"([{"role": "tool", "content": {"degrees": 21.5}}])";
  CHECK(render("{{ messages[0].content | tojson }}", result) == R"({"degrees": 21.5})");
  CHECK_THROWS_WITH(render("{{ messages[0].content }}", result),
                    ContainsSubstring("message 0: its content would be written as Python writes"));
  CHECK_THROWS_WITH(
      render("{{ messages[0].tool_calls }}",
             R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}])"),
      ContainsSubstring("message 0: its tool calls would be written as Python writes a list"));
}

TEST_CASE("reasoning is found under all of its names") {
  for (const std::string name : {"reasoning_content", "thinking", "reasoning"}) {
    INFO(name);
    const std::string json = R"([{"role": "assistant", ")" + name + R"(": "hm"}])";
    CHECK(render("{{ messages[0].reasoning_content }}{{ messages[0].thinking }}", json) == "hmhm");
  }
  CHECK(render("{{ messages[0].reasoning_content is defined }}",
               R"([{"role": "user", "reasoning": null}])") == "False");
}

TEST_CASE("numbers are whole, however large, or real") {
  CHECK(render("{{ messages[0].n }} {{ messages[0].m }} {{ messages[0].x }}",
               R"([{"role": "u", "n": -3, "m": 18446744073709551615, "x": 1.50}])") ==
        "-3 18446744073709551615 1.5");
}

}  // namespace strata
