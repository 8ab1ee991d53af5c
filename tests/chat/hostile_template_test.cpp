// Templates that were made to take hours or gigabytes. Each ends in text or in an error that names
// its line; one that does not would run until the tests' own limit.

#include <csignal>
#include <cstdint>
#include <string>

#include "strata/base/stop_signals.h"
#include "strata/chat/chat_template.h"
#include "support/allocations.h"
#include "support/catch.h"

namespace strata {
namespace {

constexpr std::int64_t kMostHeapBytes = std::int64_t{256} << 20;

Conversation one_message() {
  return Conversation::parse(R"([{"role": "user", "content": "Hi"}])", "test");
}

/// Returns what a template writes, or why it does not; fails if that took too much memory.
std::string outcome_of(const std::string& source) {
  const std::int64_t before = test::heap_bytes();
  (void)test::heap_peak();
  std::string outcome;
  try {
    outcome = ChatTemplate::parse(source, "chat.jinja").render(one_message(), {}).text;
  } catch (const IoError& error) {
    outcome = error.what();
  }
  CHECK(test::heap_peak() - before < kMostHeapBytes);
  return outcome;
}

/// Returns a template that does something 100,000 times with `s`, a long string.
std::string often(const std::string& what) {
  return "{% set s = 'a' * 100000 * 100 %}{% for i in range(100000) %}{% set x = " + what +
         " %}{% endfor %}";
}

/// Returns `count` times a text, with "@" replaced by a number.
std::string numbered(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    for (const char c : text) all += c == '@' ? std::to_string(i) : std::string(1, c);
  }
  return all;
}

}  // namespace

TEST_CASE("a search for what all but stands everywhere takes one pass") {
  const std::string strings =
      "{% set s = 'a' * 1000 * 3000 %}{% set end = 'a' * 1000 * 1500 ~ 'b' %}"
      "{% set begin = 'b' ~ 'a' * 1000 * 1500 %}";
  CHECK(outcome_of(strings + "{{ s.find(end) }}") == "-1");
  CHECK(outcome_of(strings + "{{ s.rfind(begin) }}") == "-1");
  CHECK(outcome_of(strings + "{{ end in s }}") == "False");
  CHECK(outcome_of(strings + "{{ s.split(end) | length }}") == "1");
  CHECK(outcome_of(strings + "{{ s.rsplit(begin) | length }}") == "1");
  CHECK(outcome_of(strings + "{{ s.count(end) }}") == "0");
  CHECK(outcome_of(strings + "{{ s.replace(end, '') | length }}") == "3000000");
}

TEST_CASE("what a template looks at is charged even if nothing comes of it") {
  for (const char* what :
       {"s.strip('b' * 1000000 ~ 'a')", "s.lstrip('a')", "s.rstrip('a')", "s.startswith(s)",
        "s.endswith((s, s))", "s.find('b')", "s.rfind('b')", "'b' in s", "s | length", "s[0]",
        "s == s ~ ''", "s.isspace()", "s is lower", "('%%' * 1000000) % ()",
        "('{a}' * 1000000).format(a='')", "s.removeprefix(s)"}) {
    INFO(what);
    CHECK_THAT(outcome_of(often(what)),
               ContainsSubstring("chat.jinja:1: ") &&
                   (ContainsSubstring("steps") || ContainsSubstring("128 MiB")));
  }
}

TEST_CASE("many names and long ones are charged") {
  const std::string many = numbered(50000, "{% set v@ = 1 %}");
  CHECK_THAT(outcome_of(many + "{% for i in range(100000) %}{{ v49999 }}{% endfor %}"),
             ContainsSubstring("steps"));
  CHECK_THAT(outcome_of("{% macro f(z," + numbered(30000, "a@=1,") + ") %}{% endmacro %}" +
                        "{% for i in range(100000) %}{{ f(" + numbered(30000, "a@=1,") +
                        "z=1) }}{% endfor %}"),
             ContainsSubstring("steps"));
  const std::string name(500000, 'n');
  CHECK_THAT(outcome_of("{% for i in range(100000) %}{% macro " + name +
                        "() %}{% endmacro %}{% endfor %}"),
             ContainsSubstring("MiB"));
  CHECK_THAT(outcome_of("{% for i in range(100000) %}{{ messages[0]." + name + " }}{% endfor %}"),
             ContainsSubstring("steps"));
}

TEST_CASE("a template without line ends is read in one pass") {
  CHECK(outcome_of(numbered(200000, "{##}")).empty());
  CHECK(outcome_of(numbered(100000, "{%+if 0%}{%endif%}").substr(0, 1000000 / 18 * 18)).empty());
}

TEST_CASE("no template takes more memory than 256 MiB") {
  const std::string long_text = "{% set s = 'ab' * 100000 * 150 %}";
  CHECK(outcome_of(long_text + "{{ s }}").size() == 30000000);
  CHECK(outcome_of(long_text + "{{ s[1] }}{{ s[-1] }}{{ s[2:4] }}") == "bbab");
  for (const char* what :
       {"{{ s | list | length }}", "{{ s[::-1] }}", "{{ s | upper }}", "{{ s | tojson }}",
        "{{ [s, s] | tojson(indent=s, separators=(s, s)) }}", "{{ raise_exception(s) }}",
        "{{ 1 | map(s) }}", "{{ ('{' ~ s ~ '}').format() }}", "{{ [1] | map(s) }}",
        "{{ 1.5 | round(method=s) }}", "{{ ('%s' * 1000000) % (range(100000) | list) }}",
        "{% for c in s %}{% endfor %}", "{{ s.split('a') | sort | length }}",
        "{{ (messages[0].role[0] ~ 'x') * 100000 * 300 }}"}) {
    INFO(what);
    CHECK_THAT(outcome_of(long_text + what), ContainsSubstring("chat.jinja:1: "));
  }
}

TEST_CASE("a template is left when the program is asked to end") {
  const auto looping =
      ChatTemplate::parse("{% for i in range(100000) %}{{ i }}{% endfor %}", "chat.jinja");
  const Conversation conversation = one_message();
  {
    const StopSignals stop;
    raise(SIGTERM);
    CHECK_THROWS_AS(looping.render(conversation, {}), Interrupted);
  }
  CHECK_NOTHROW(looping.render(conversation, {}));
}

}  // namespace strata
