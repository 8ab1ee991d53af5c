// What has loss, written out by hand for the ways in which templates treat assistants' turns.

#include "strata/chat/assistant_spans.h"

#include <string>
#include <vector>

#include "support/catch.h"

namespace strata {
namespace {

struct Learnt {
  std::vector<std::string> pieces;
  std::vector<std::int32_t> silent;
};

Learnt learnt(const ChatTemplate& chat_template, const std::string& json) {
  const auto conversation = Conversation::parse(json, "test");
  const RenderOptions options{.bos_token = "<s>", .eos_token = "</s>"};
  const RenderedChat rendered = chat_template.render(conversation, options);
  const AssistantSpans found = assistant_spans(chat_template, conversation, options, rendered);
  Learnt result{.pieces = {}, .silent = found.silent};
  std::size_t at = 0;
  for (const TextSpan& span : found.spans) {
    CHECK(span.begin >= at);
    CHECK(conversation.role(static_cast<std::size_t>(span.origin.message)) == "assistant");
    result.pieces.push_back(rendered.text.substr(span.begin, span.end - span.begin));
    at = span.end;
  }
  return result;
}

std::vector<std::string> pieces(const std::string& source, const std::string& json) {
  return learnt(ChatTemplate::parse(source, "test"), json).pieces;
}

using Pieces = std::vector<std::string>;

const char* const kTwoTurns = R"([{"role": "user", "content": "a"}, {"role": "assistant",
    "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}])";
const char* const kToolTurns = R"([{"role": "user", "content": "a"},
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f",
        "arguments": {"x": 1}}}, {"function": {"name": "g", "arguments": {}}}]},
    {"role": "tool", "content": "r"}, {"role": "assistant", "content": "d"}])";

/// ChatML with tool calls, and with `turn` for what is written of an assistant's content.
std::string chatml(const std::string& turn) {
  return R"(
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\n' }}
{%- if m.role == 'assistant' %}
{{- )" + turn +
         R"( }}
{%- for call in m.tool_calls or [] %}
{{- '\n<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson + '}\n</tool_call>' }}
{%- endfor %}
{%- else %}
{{- m.content }}
{%- endif %}
{{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- endif %})";
}

}  // namespace

TEST_CASE("the built-in templates teach answers and the ends of turns") {
  const auto of = [](std::string_view name) {
    return learnt(ChatTemplate::built_in(name), kTwoTurns).pieces;
  };
  CHECK(of("chatml") == Pieces{"b<|im_end|>", "d<|im_end|>"});
  CHECK(of("llama2") == Pieces{" b </s>", " d </s>"});
  CHECK(of("llama3") == Pieces{"b<|eot_id|>", "d<|eot_id|>"});
  CHECK(of("mistral") == Pieces{" b</s>", " d</s>"});
}

TEST_CASE("what stands before an answer is no part of it") {
  // The template has no generation prompt, so only the words themselves are known to be learnt.
  CHECK(pieces("{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}",
               kTwoTurns) == Pieces{"b<|end|>", "d<|end|>"});
  CHECK(pieces("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", kTwoTurns) ==
        Pieces{"b", "d"});
}

TEST_CASE("tool calls are learnt with the text around them") {
  CHECK(pieces(chatml("m.content"), kToolTurns) ==
        Pieces{"\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>"
               "\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call><|im_end|>",
               "d<|im_end|>"});
}

TEST_CASE("thoughts that the template leaves out of earlier turns are not learnt there") {
  const std::string cut = chatml("m.content if loop.last else m.content.split('</think>')[-1]");
  CHECK(pieces(cut, R"([{"role": "user", "content": "a"},
      {"role": "assistant", "content": "<think>x</think>b"}, {"role": "user", "content": "c"},
      {"role": "assistant", "content": "<think>y</think>d"}])") ==
        Pieces{"b<|im_end|>", "<think>y</think>d<|im_end|>"});
}

TEST_CASE("what the template writes for the model is learnt if the prompt did not have it") {
  CHECK(pieces(chatml("'<think>\\n\\n</think>\\n\\n' + m.content if loop.last else m.content"),
               kTwoTurns) == Pieces{"b<|im_end|>",
                                    "<think>\n\n</think>\n\n"
                                    "d<|im_end|>"});
  const std::string prompted =
      "{% for m in messages %}{% if m.role == 'user' %}<u>{{ m.content }}{% else %}<a>{% if "
      "loop.last %}<think>{% endif %}{{ m.content }}</s>{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<a><think>{% endif %}";
  CHECK(pieces(prompted, kTwoTurns) == Pieces{"b</s>", "d</s>"});
}

TEST_CASE("a last turn may end by another token") {
  CHECK(pieces("{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}"
               "{{ '<|return|>' if loop.last and m.role == 'assistant' else '<|end|>' }}"
               "{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}",
               kTwoTurns) == Pieces{"<|message|>b<|end|>", "<|message|>d<|return|>"});
}

TEST_CASE("what ends the whole text is no end of a turn") {
  CHECK(pieces("{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
               "{{ '<|assistant|>\n' if add_generation_prompt else eos_token }}",
               kTwoTurns) == Pieces{"b<|end|>", "d<|end|>"});
}

TEST_CASE("a tool's name that is said again with its result is not learnt there") {
  const std::string source =
      "{% set ns = namespace(name='') %}{% for m in messages %}{% if m.tool_calls %}"
      "<a>{% for c in m.tool_calls %}<call>{% set ns.name = c.function.name %}"
      "{{ c.function.name }}({{ c.function.arguments | tojson }}){% endfor %}</s>"
      "{% elif m.role == 'tool' %}<t>{{ ns.name }}={{ m.content }}</t>"
      "{% elif m.role == 'user' %}<u>{{ m.content }}{% else %}<a>{{ m.content }}</s>{% endif %}"
      "{% endfor %}{{ '<a>' if add_generation_prompt }}";
  CHECK(pieces(source, kToolTurns) == Pieces{"<call>f({\"x\": 1})<call>g({})</s>", "d</s>"});
}

TEST_CASE("generation blocks decide where there are any") {
  const Learnt found = learnt(
      ChatTemplate::parse("{% for m in messages %}{% if m.role == 'assistant' and loop.last %}A:"
                          "{% generation %} {{ m.content }}!{% endgeneration %}{% else %}"
                          "{{ m.content }}</s>{% endif %}{% endfor %}",
                          "test"),
      kTwoTurns);
  CHECK(found.pieces == Pieces{" d!"});
  CHECK(found.silent == std::vector<std::int32_t>{1});
}

TEST_CASE("a conversation that teaches nothing is known by having no spans") {
  const Learnt question =
      learnt(ChatTemplate::built_in("chatml"), R"([{"role": "user", "content": "a"}])");
  CHECK(question.pieces.empty());
  CHECK(question.silent.empty());
  const Learnt hidden =
      learnt(ChatTemplate::parse(
                 "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}", "test"),
             kTwoTurns);
  CHECK(hidden.pieces.empty());
  CHECK(hidden.silent == std::vector<std::int32_t>{1, 3});
}

TEST_CASE("a template that renders no beginnings still teaches the words") {
  CHECK(pieces("{% if messages | length < 4 %}{{ raise_exception('too short') }}{% endif %}"
               "{% for m in messages %}[{{ m.role }}] {{ m.content }}<|end|> {% endfor %}",
               kTwoTurns) == Pieces{"b<|end|>", "d<|end|>"});
}

}  // namespace strata
