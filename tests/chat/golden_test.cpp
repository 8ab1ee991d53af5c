// Small templates, one for each feature, against what Jinja2 makes of them
// (scripts/golden/make_chat_goldens.py).

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "strata/chat/assistant_spans.h"
#include "strata/chat/chat_template.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"

namespace strata {
namespace {

using OrderedJson = nlohmann::ordered_json;

const OrderedJson& goldens() {
  static const OrderedJson parsed =
      test::read_json<OrderedJson>(test::source_folder() + "/tests/chat/goldens.json");
  return parsed;
}

RenderOptions golden_options() {
  return {.bos_token = "<s>",
          .eos_token = "</s>",
          .add_generation_prompt = true,
          .now_s = goldens()["now_s"].get<std::int64_t>()};
}

Conversation golden_chat() { return Conversation::parse(json_text(goldens()["chat"]), "goldens"); }

RenderedChat render_golden(const OrderedJson& golden) {
  return ChatTemplate::parse(golden["template"].get<std::string>(), "golden")
      .render(golden_chat(), golden_options());
}

}  // namespace

TEST_CASE("each feature of the language renders as Jinja2 renders it") {
  setenv("TZ", "UTC", 1);
  tzset();
  int compared = 0;
  for (const OrderedJson& golden : goldens()["cases"]) {
    if (!golden.contains("text")) continue;
    INFO(golden["name"].get<std::string>());
    std::string text;
    try {
      text = render_golden(golden).text;
    } catch (const Error& error) {
      text = error.what();
    }
    CHECK(text == golden["text"].get<std::string>());
    ++compared;
  }
  CHECK(compared > 40);
}

TEST_CASE("what data sets write becomes what transformers makes of what is meant") {
  int compared = 0;
  for (const OrderedJson& golden : goldens()["meant"]) {
    INFO(golden["name"].get<std::string>());
    const std::string source = golden["template"].get<std::string>();
    const auto written = golden["written"].get<std::string>();
    std::string text;
    try {
      text = ChatTemplate::parse(source, "golden")
                 .render(Conversation::parse(written, "goldens"), {})
                 .text;
    } catch (const Error& error) {
      text = error.what();
    }
    CHECK(text == golden["text"].get<std::string>());
    ++compared;
  }
  CHECK(compared > 10);
}

TEST_CASE("what Jinja2 refuses is refused") {
  int refused = 0;
  for (const OrderedJson& golden : goldens()["cases"]) {
    if (golden.contains("text")) continue;
    INFO(golden["name"].get<std::string>());
    CHECK_THROWS_AS(render_golden(golden), IoError);
    ++refused;
  }
  CHECK(refused > 20);
}

TEST_CASE("generation blocks have the loss that transformers gives them") {
  for (const OrderedJson& golden : goldens()["cases"]) {
    if (!golden.contains("generated")) continue;
    const auto chat_template = ChatTemplate::parse(golden["template"].get<std::string>(), "golden");
    const Conversation chat = golden_chat();
    const RenderedChat rendered = chat_template.render(chat, golden_options());
    std::vector<std::string> pieces;
    for (const TextSpan& span :
         assistant_spans(chat_template, chat, golden_options(), rendered).spans) {
      pieces.push_back(rendered.text.substr(span.begin, span.end - span.begin));
    }
    CHECK(pieces == golden["generated"].get<std::vector<std::string>>());
  }
}

}  // namespace strata
