// Strings keep the origin of each of their characters through all that templates do with them. The
// reference is a naive string that has an origin for each byte.

#include "chat/traced_text.h"

#include <string>
#include <vector>

#include "strata/base/random.h"
#include "strata/chat/chat_template.h"
#include "support/catch.h"

namespace strata {
namespace {

using chat::TracedText;

/// Returns the message of each byte.
std::vector<int> messages_of(const std::vector<TextSpan>& spans) {
  std::vector<int> result;
  for (const TextSpan& span : spans) {
    result.insert(result.end(), span.end - span.begin, span.origin.message);
  }
  return result;
}

/// Renders `{{ expression }}` with a = "Abc é" of message 0 and b = "  12;34 " of message 1, and
/// writes each byte's message below it, "." for the template.
std::string traced(const std::string& expression) {
  const auto conversation = Conversation::parse(
      R"([{"role": "user", "content": "Abc é"}, {"role": "assistant", "content": "  12;34 ",
          "n": 7, "list": [true, {"k": "v"}]}])",
      "test");
  const RenderedChat chat =
      ChatTemplate::parse("{% set a = messages[0].content %}{% set b = messages[1].content %}{{ " +
                              expression + " }}",
                          "test")
          .render(conversation, {});
  std::string result = chat.text + '|';
  for (const int message : messages_of(chat.spans)) {
    result += message < 0 ? "." : std::to_string(message);
  }
  return result;
}

}  // namespace

TEST_CASE("a text made of pieces has the bytes and origins of a naive one") {
  std::uint64_t index = 0;
  const auto dice = [&](std::size_t below) { return random_bits(1, 2, index++) % below; };
  TracedText text;
  std::string bytes;
  std::vector<int> origins;
  for (int round = 0; round < 300; ++round) {
    if (dice(2) == 0 || bytes.empty()) {
      const std::string piece(dice(4), static_cast<char>('a' + dice(26)));
      const int message = static_cast<int>(dice(3)) - 1;
      text.append(piece, {.message = message});
      bytes += piece;
      origins.insert(origins.end(), piece.size(), message);
    } else {
      const std::size_t begin = dice(bytes.size() + 1);
      const std::size_t end = begin + dice(bytes.size() - begin + 1);
      const TracedText cut = text.slice(begin, end);
      CHECK(cut.bytes() == bytes.substr(begin, end - begin));
      const std::vector<int> expected(origins.begin() + static_cast<std::ptrdiff_t>(begin),
                                      origins.begin() + static_cast<std::ptrdiff_t>(end));
      CHECK(messages_of(cut.spans()) == expected);
      if (dice(20) == 0) {
        text = cut;
        bytes = cut.bytes();
        origins = expected;
      }
    }
    CHECK(text.bytes() == bytes);
    CHECK(messages_of(text.spans()) == origins);
  }
}

TEST_CASE("spans have no gaps, and neighbours differ") {
  TracedText text("ab", {.message = 1});
  text.append("", {.message = 2});
  text.append("c", {.message = 1});
  text.append("d");
  CHECK(text.spans() == std::vector<TextSpan>{{0, 3, {.message = 1}}, {3, 4, {}}});
  CHECK(text.origin_at(3) == Origin{});
  CHECK(TracedText().spans().empty());
}

TEST_CASE("origins survive what templates do with strings") {
  CHECK(traced("'<' ~ a ~ b.strip() + '>'") == "<Abc é12;34>|.00000011111.");
  CHECK(traced("b | trim") == "12;34|11111");
  CHECK(traced("a[1:-1] ~ a[-1]") == "bc é|00000");
  CHECK(traced("a[::-1]") == "é cbA|000000");
  CHECK(traced("b.split(';') | join('+')") == "  12+34 |1111.111");
  CHECK(traced("b.replace('12', a)") == "  Abc é;34 |110000001111");
  CHECK(traced("b.replace(';', '-')") == "  12-34 |1111.111");
  CHECK(traced("a[:3] | upper") == "ABC|000");
  CHECK(traced("'{}: {}'.format(a, 1)") == "Abc é: 1|000000...");
  CHECK(traced("'%s!' % a") == "Abc é!|000000.");
  CHECK(traced("b | indent(1, true)") == "   12;34 |.11111111");
  CHECK(traced("[a, b] | first | list | join") == "Abc é|000000");
  CHECK(traced("a * 2") == "Abc éAbc é|000000000000");
}

TEST_CASE("JSON and numbers of a message keep its origin") {
  CHECK(traced("a | tojson") == "\"Abc é\"|00000000");
  CHECK(traced("(a ~ '\"') | tojson") == "\"Abc é\\\"\"|0000000...");
  CHECK(traced("messages[1].n") == "7|1");
  CHECK(traced("messages[1].list | tojson") == "[true, {\"k\": \"v\"}]|" + std::string(18, '1'));
  CHECK(traced("messages[1].list") == "[True, {'k': 'v'}]|" + std::string(18, '1'));
  CHECK(traced("{'x': messages[1].n} | tojson") == "{\"x\": 7}|......1.");
}

TEST_CASE("origins survive macros, set blocks and filter blocks") {
  const auto conversation = Conversation::parse(R"([{"role": "user", "content": "hi"}])", "test");
  const auto chat_template = ChatTemplate::parse(
      "{% macro m(x) %}<{{ x }}>{% endmacro %}{% set y %}{{ m(messages[0].content) }}{% endset %}"
      "{% filter upper %}{{ y }}{% endfilter %}",
      "test");
  const RenderedChat chat = chat_template.render(conversation, {});
  const Origin content{.message = 0, .field = ChatField::kContent};
  CHECK(chat.text == "<HI>");
  CHECK(chat.spans == std::vector<TextSpan>{{0, 1, {}}, {1, 3, content}, {3, 4, {}}});
}

}  // namespace strata
