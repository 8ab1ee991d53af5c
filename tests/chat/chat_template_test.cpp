// Templates as a caller meets them: errors with file and line, limits, and those that are built in.

#include "strata/chat/chat_template.h"

#include <string>

#include "support/catch.h"

namespace strata {
namespace {

const char* const kChat = R"([{"role": "system", "content": "Be kind."},
    {"role": "user", "content": " Hi "}, {"role": "assistant", "content": " Hello. "},
    {"role": "user", "content": "Bye"}])";

Conversation sample_chat() { return Conversation::parse(kChat, "test"); }

std::string problem_of(const std::string& source) {
  try {
    (void)ChatTemplate::parse(source, "chat.jinja").render(sample_chat(), {});
  } catch (const IoError& error) {
    return error.what();
  }
  return "none";
}

std::string built_in(std::string_view name, bool prompt) {
  return ChatTemplate::built_in(name)
      .render(sample_chat(),
              {.bos_token = "<s>", .eos_token = "</s>", .add_generation_prompt = prompt})
      .text;
}

}  // namespace

TEST_CASE("errors name the file, the line, and what is wrong") {
  CHECK(problem_of("a\n{% include 'b' %}") == "chat.jinja:2: statement 'include' is not supported");
  CHECK(problem_of("a\n\xff") == "chat.jinja:2: is no UTF-8; save it as UTF-8");
  CHECK(problem_of("\xed\xa0\x80") == "chat.jinja:1: is no UTF-8; save it as UTF-8");
  CHECK(problem_of("\n\n{{ 1 | shout }}") == "chat.jinja:3: filter 'shout' is not supported");
  CHECK(problem_of("{{ \u2019a\u2019 }}") ==
        "chat.jinja:1: unexpected character '\u2019' in a tag");
  CHECK(problem_of("{{ 0x" + std::string(1001, 'f') + " }}") ==
        "chat.jinja:1: a number has more than 1000 digits");
  CHECK(problem_of("{{ 1 is odder }}") == "chat.jinja:1: test 'odder' is not supported");
  CHECK(problem_of("\n{{ messages[0].foo.bar }}") ==
        "chat.jinja:2: 'messages[0].foo' is undefined");
  CHECK(problem_of("{% if true %}\n\n{{ 'a' + 1 }}{% endif %}") ==
        "chat.jinja:3: '+' does not take str and int");
  CHECK(problem_of("{% for x in y %}\n") ==
        "chat.jinja:1: expected {% endfor %}, found the template's end");
  CHECK(problem_of("{{ f(\n1) }}") == "chat.jinja:1: 'f' is no function, but undefined");
}

TEST_CASE("built-in templates refuse tools and tool calls, for which they have no place") {
  const std::string user = R"({"role": "user", "content": "a"})";
  const std::string call =
      R"({"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f"}}]})";
  const std::string old =
      R"({"role": "assistant", "content": "b", "function_call": {"name": "f"}})";
  for (const std::string_view name : ChatTemplate::built_in_names()) {
    INFO(name);
    const auto refusal = [&](const std::string& json) -> std::string {
      try {
        (void)ChatTemplate::built_in(name).render(Conversation::parse(json, "test"),
                                                  {.bos_token = "<s>", .eos_token = "</s>"});
      } catch (const ChatRefused& error) {
        return error.what();
      }
      return "none";
    };
    CHECK(refusal("[" + user + "]") == "none");
    CHECK_THAT(refusal("[" + user + ", " + call + "]"), ContainsSubstring("place for tool calls"));
    CHECK_THAT(refusal("[" + user + ", " + old + "]"), ContainsSubstring("place for tool calls"));
    CHECK_THAT(refusal(R"({"tools": [{"name": "f"}], "messages": [)" + user + "]}"),
               ContainsSubstring("no place for tools"));
  }
}

TEST_CASE("a template's refusal is an error of its own") {
  const auto refusing = ChatTemplate::parse("\n{{ raise_exception('no system') }}", "chat.jinja");
  CHECK_THROWS_AS(refusing.render(sample_chat(), {}), ChatRefused);
  CHECK(problem_of("\n{{ raise_exception('no system') }}") ==
        "chat.jinja:2: the template refuses the conversation: no system");
}

TEST_CASE("a template cannot run for ever") {
  const std::string loop = "{% set l = range(300) %}{% for i in l %}{% for i in l %}";
  CHECK_THAT(problem_of(loop + "{% for i in l %}{% endfor %}{% endfor %}{% endfor %}"),
             ContainsSubstring("shorten the template's loops"));
  CHECK_THAT(problem_of(loop + "{{ l == l }}{% endfor %}{% endfor %}"), ContainsSubstring("steps"));
  CHECK_THAT(problem_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
             ContainsSubstring("levels deep"));
  CHECK_THAT(problem_of("{{ " + std::string(100000, '(') + std::string(100000, ')') + "}}"),
             ContainsSubstring("levels deep"));
  CHECK_THAT(problem_of("{{ " + std::string(100000, '-') + "1 }}"),
             ContainsSubstring("levels deep"));
  CHECK_THAT(problem_of("{{ 1" + std::string(100000, '+') + "1 }}"),
             ContainsSubstring("levels deep"));
}

TEST_CASE("a template cannot take all memory") {
  CHECK_THAT(problem_of("{{ 'x' * 1000000000000 }}"), ContainsSubstring("chat.jinja:1: "));
  CHECK_THAT(problem_of("{{ ['x'] * 1000000000 }}"), ContainsSubstring("chat.jinja:1: "));
  CHECK_THAT(problem_of("{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}"
                        "{% for i in range(64) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"),
             ContainsSubstring("MiB"));
}

TEST_CASE("values that hold each other end in an error, or in text") {
  const std::string nest =
      "{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}";
  CHECK_THAT(problem_of(nest + "{{ ns.l | tojson }}"), ContainsSubstring("too deeply"));
  CHECK_THAT(problem_of(nest + "{{ ns.l }}"), ContainsSubstring("too deeply"));
  CHECK_THAT(problem_of(nest + "{% set a = ns.l %}{{ [a] == [[a[0]]] }}"),
             ContainsSubstring("too deeply"));
  CHECK(problem_of("{% set ns = namespace() %}{% set ns.self = ns %}{{ ns.self == ns }}") ==
        "none");
}

TEST_CASE("letters beyond ASCII are not changed to a wrong case") {
  CHECK_THAT(problem_of("{{ 'élève' | upper }}"), ContainsSubstring("ASCII letters only, not 'é'"));
  CHECK(problem_of("{{ '你好 abc' | upper }}") == "none");
}

TEST_CASE("only the first messages are rendered if asked") {
  const auto roles = ChatTemplate::parse("{% for m in messages %}{{ m.role[0] }}{% endfor %}", "t");
  CHECK(roles.render(sample_chat(), {}).text == "suau");
  CHECK(roles.render(sample_chat(), {.first_messages = 2}).text == "su");
  CHECK(roles.render(sample_chat(), {.first_messages = 9}).text == "suau");
}

TEST_CASE("the built-in templates write the public formats") {
  CHECK(built_in("chatml", true) ==
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
        "<|im_start|>assistant\n Hello. <|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
        "<|im_start|>assistant\n");
  CHECK(built_in("llama2", false) ==
        "<s>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHi [/INST] Hello. </s><s>[INST] Bye [/INST]");
  CHECK(built_in("llama3", true) ==
        "<s><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n");
  CHECK(built_in("mistral", false) ==
        "<s>[INST] Be kind.\n\n Hi [/INST] Hello.</s>[INST] Bye[/INST]");
  CHECK(ChatTemplate::built_in_names().size() == 4);
  CHECK_THROWS_WITH(
      ChatTemplate::built_in("alpaca"),
      "there is no chat template 'alpaca'; those built in are chatml, llama2, llama3, "
      "mistral");
}

}  // namespace strata
