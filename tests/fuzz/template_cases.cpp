// Chat templates and conversations, damaged byte by byte and token by token. What comes of two
// templates is put together, so that statements stand where nobody wrote them.

#include <algorithm>
#include <array>
#include <cstdio>

#include "fuzz/cases.h"
#include "fuzz/nasty.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/chat/assistant_spans.h"
#include "strata/chat/chat_template.h"

namespace strata::fuzz {
namespace {

constexpr const char* kTemplate = "chat.jinja";
constexpr const char* kConversation = "chat.json";
constexpr int kWrongSpans = 90;  ///< an exit code that nothing documents: a finding

/// Pieces of the language that mutations insert.
constexpr std::array<const char*, 40> kPieces{"{{ ",
                                              " }}",
                                              "{% ",
                                              " %}",
                                              "{%- ",
                                              " -%}",
                                              "{% for i in range(1000) %}",
                                              "{% endfor %}",
                                              "{% if messages %}",
                                              "{% endif %}",
                                              "{% set x = x ~ x %}",
                                              "{% set x = [x, x] %}",
                                              "{% macro f(x) %}{{ f(x) }}{% endmacro %}",
                                              "{{ f(messages) }}",
                                              "{% set ns.x = ns %}",
                                              "{% generation %}",
                                              "{% endgeneration %}",
                                              "{% filter upper %}",
                                              "{% endfilter %}",
                                              " * 1000000",
                                              " ~ messages",
                                              "[::-1]",
                                              "[-1:5:2]",
                                              "[9223372036854775807:]",
                                              ".items()",
                                              ".split('')",
                                              ".replace('', 'x')",
                                              "|tojson(indent=1000)",
                                              "|map('map', 'list')|list",
                                              "|sort",
                                              "|batch(1000000000, 0)|list",
                                              "|indent(1000)",
                                              "|join(messages)",
                                              "%",
                                              "**",
                                              "(",
                                              "[",
                                              "{#",
                                              "'",
                                              " is divisibleby 0"};

/// Puts a piece of the language in, takes a part out, or damages bytes.
void mutate_template(Dice& dice, const Material& material, std::string& text) {
  const std::size_t at = dice.below(text.size() + 1);
  switch (dice.below(6)) {
    case 0:
    case 1:
    case 2: text.insert(at, dice.pick(kPieces)); break;
    case 3: text.erase(at, dice.below(8)); break;
    case 4: {
      const std::string& other = dice.pick(material.chat_templates);
      const std::size_t begin = dice.below(other.size());
      text.insert(at, other.substr(begin, 1 + dice.below(40)));
      break;
    }
    default: damage(dice, text);
  }
}

}  // namespace

Case make_template_case(Dice& dice, const Material& material) {
  std::string source = dice.pick(material.chat_templates);
  if (dice.chance(0.3)) source += dice.pick(material.chat_templates);
  for (std::size_t count = 1 + dice.below(2); count > 0; --count) {
    mutate_template(dice, material, source);
  }
  std::string conversation = material.conversation;
  if (dice.chance(0.3)) damage_json(dice, conversation);
  Case made;
  made.files = {{kTemplate, source}, {kConversation, conversation}};
  made.arguments = {"(render)", kTemplate, kConversation};
  made.subjects = {kTemplate, kConversation};
  return made;
}

int render_template() {
  constexpr std::size_t kMostBytes = 1u << 24;
  try {
    const auto chat_template =
        ChatTemplate::parse(read_text_file(kTemplate, kMostBytes), kTemplate);
    const auto conversation =
        Conversation::parse(read_text_file(kConversation, kMostBytes), kConversation);
    const RenderOptions options{.bos_token = "<s>", .eos_token = "</s>", .now_s = 0};
    const RenderedChat rendered = chat_template.render(conversation, options);
    std::size_t at = 0;
    for (const TextSpan& span : rendered.spans) {
      if (span.begin != at || span.end <= at) return kWrongSpans;
      at = span.end;
    }
    if (at != rendered.text.size()) return kWrongSpans;
    (void)assistant_spans(chat_template, conversation, options, rendered);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}

}  // namespace strata::fuzz
