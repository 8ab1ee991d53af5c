// Where templates are found: the files of a model's folder, and names.

#include <string>

#include "strata/base/error.h"
#include "strata/chat/chat_template.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

std::string text_by(const ChatTemplate& chat_template) {
  return chat_template
      .render(Conversation::parse(R"([{"role": "user", "content": "a"}])", "test"), {})
      .text;
}

}  // namespace

TEST_CASE("a model's template is in a file of its own or in the config of its tokenizer") {
  const ScratchFolder folder;
  const auto text = [&] {
    const auto found = ChatTemplate::of_model(folder.file("."));
    return found ? text_by(*found) : "none";
  };
  CHECK(text() == "none");
  folder.write("tokenizer_config.json", R"({"chat_template": null})");
  CHECK(text() == "none");
  folder.write("tokenizer_config.json", R"({"chat_template": "1{{ messages[0].content }}"})");
  CHECK(text() == "1a");
  folder.write("tokenizer_config.json", R"({"chat_template": [
      {"name": "tool_use", "template": "2"}, {"name": "default", "template": "3"}]})");
  CHECK(text() == "3");
  const auto beside = ChatTemplate::of_model(folder.write("tokenizer.json", "{}"));
  REQUIRE(beside);
  CHECK(text_by(*beside) == "3");
  folder.write("chat_template.jinja", "4");
  CHECK(text() == "4");
}

TEST_CASE("conversations with tools get the template that is for them") {
  const ScratchFolder folder;
  const auto texts = [&] {
    const auto found = ChatTemplate::of_model(folder.file("."));
    REQUIRE(found);
    std::string all;
    for (const char* tools : {"null", "[]", R"([{"name": "f"}])"}) {
      const std::string json = R"({"messages": [{"role": "user", "content": "a"}], "tools": )";
      all += found->render(Conversation::parse(json + tools + '}', "test"), {}).text + ' ';
    }
    return all;
  };
  folder.write("tokenizer_config.json", R"({"chat_template": [
      {"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]})");
  CHECK(texts() == "plain tools tools ");
  folder.write("chat_template.jinja", "own");
  CHECK(texts() == "own own own ");
  folder.write("additional_chat_templates/tool_use.jinja", "{{ tools | length }}");
  CHECK(texts() == "own 0 1 ");
  folder.write("additional_chat_templates/tool_use.jinja", "{% if %}");
  CHECK_THROWS_WITH(texts(), ContainsSubstring("additional_chat_templates/tool_use.jinja:1: "));
}

TEST_CASE("a model whose only template is for tools is refused with the remedy") {
  const ScratchFolder folder;
  folder.write("additional_chat_templates/tool_use.jinja", "tools");
  CHECK_THROWS_WITH(ChatTemplate::of_model(folder.file(".")),
                    ContainsSubstring("additional_chat_templates/tool_use.jinja: ") &&
                        ContainsSubstring("chat_template.jinja"));
}

TEST_CASE("templates that cannot be read are refused by file") {
  const ScratchFolder folder;
  const auto refusal = [&](const std::string& config) -> std::string {
    folder.write("tokenizer_config.json", config);
    try {
      (void)ChatTemplate::of_model(folder.file("."));
    } catch (const IoError& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(refusal("{"), ContainsSubstring("tokenizer_config.json: is not JSON"));
  CHECK_THAT(refusal(R"({"chat_template": [{"name": "rag", "template": "x"}]})"),
             ContainsSubstring("tokenizer_config.json: $.chat_template") &&
                 ContainsSubstring("\"default\""));
  CHECK_THAT(refusal(R"({"chat_template": 3})"), ContainsSubstring("$.chat_template"));
  CHECK_THAT(refusal(R"({"chat_template": "\n{% for %}"})"),
             ContainsSubstring("$.chat_template:2: "));
  CHECK_THROWS_AS(ChatTemplate::load("nowhere.jinja"), ConfigError);
  CHECK_THROWS_WITH(
      ChatTemplate::load("nowhere.jinja"),
      ContainsSubstring("nowhere.jinja") && ContainsSubstring("chatml, llama2, llama3, mistral"));
}

TEST_CASE("a template is loaded by its name or from a file") {
  const ScratchFolder folder;
  CHECK(text_by(ChatTemplate::load("chatml")) == "<|im_start|>user\na<|im_end|>\n");
  CHECK(text_by(ChatTemplate::load(folder.write("chatml", "from a file"))) == "from a file");
}

}  // namespace strata
