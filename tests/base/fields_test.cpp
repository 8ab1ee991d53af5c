// Tests that config structs read, write and describe themselves through one list of fields, and
// that every kind of wrong config is told by path with a remedy.

#include "strata/base/fields.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "strata/base/describe_fields.h"
#include "strata/base/error.h"
#include "support/catch.h"

namespace {

using strata::ByteSize;
using strata::ConfigError;
using strata::FieldList;

enum class Colour : std::uint8_t { kRed, kBlue };
constexpr strata::EnumName<Colour> kColourNames[] = {{Colour::kRed, "red"},
                                                     {Colour::kBlue, "blue"}};

struct Inner {
  std::int64_t warmup_steps = 7;
  double scale = 0.5;
  void fields(FieldList& f) {
    f.add("warmup_steps", warmup_steps, "steps of warm-up");
    f.add("scale", scale, "a scale");
    f.retire("skale", "scales are spelled scale now; rename it");
  }
  bool operator==(const Inner&) const = default;
};

struct Outer {
  bool flag = false;
  std::int64_t count = 3;
  double rate = 1e-5;
  std::string name = "none";
  std::vector<std::string> words{"a"};
  std::array<double, 2> pair{0.9, 0.95};
  std::vector<double> numbers{0.5};
  ByteSize limit{1024};
  Colour colour = Colour::kRed;
  std::optional<double> clip;
  std::optional<ByteSize> budget;
  Inner inner;
  std::optional<Inner> extra;
  void fields(FieldList& f) {
    f.add("flag", flag, "a switch");
    f.add("count", count, "how many");
    f.add("rate", rate, "how fast");
    f.add("name", name, "what it is called");
    f.add("words", words, "some words");
    f.add("pair", pair, "two rates");
    f.add("numbers", numbers, "some rates");
    f.add("limit", limit, "at most this much");
    f.choice("colour", colour, kColourNames, "red | blue, mostly");
    f.add("clip", clip, "null: off");
    f.add("budget", budget, "null: all of it");
    f.add("inner", inner, "a section");
    f.add("extra", extra, "a section that may be absent");
  }
  bool operator==(const Outer&) const = default;
};

Outer read(const std::string& json, const std::vector<std::string>& sets = {}) {
  Outer outer;
  strata::read_fields(outer, json, "test.json", sets);
  return outer;
}

/// What reading says about the text.
std::string complaint(const std::string& json, const std::vector<std::string>& sets = {}) {
  try {
    read(json, sets);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a zero byte in an unknown key does not end the message") {
  strata::ConfigProblems problems;
  problems.add(std::string_view("a\0b", 3), "unknown key");
  CHECK_THROWS_WITH(problems.throw_if_any("run.json"),
                    "run.json: 1 problem\n  a\\x00b: unknown key");
}

TEST_CASE("a key makes no problem of its own line") {
  strata::ConfigProblems problems;
  problems.add("a\n  model.path", "is\n  damaged");
  CHECK_THROWS_WITH(problems.throw_if_any("con\nfig"),
                    "con\\nfig: 1 problem\n  a\\n  model.path: is\\n  damaged");
}

TEST_CASE("an empty object leaves every default as it is") { CHECK(read("{}") == Outer{}); }

TEST_CASE("every type of field is read") {
  const Outer outer = read(R"({
    "flag": true, "count": -12, "rate": 2.5e-3, "name": "x", "words": ["b", "c"],
    "pair": [0.8, 1], "numbers": [1, 0.1, 3.0], "limit": "2MiB", "colour": "blue", "clip": 1, "budget": 4096,
    "inner": {"scale": 3}, "extra": {"warmup_steps": 9}})");
  CHECK(outer.flag);
  CHECK(outer.count == -12);
  CHECK(outer.rate == 2.5e-3);
  CHECK(outer.name == "x");
  CHECK(outer.words == std::vector<std::string>{"b", "c"});
  CHECK(outer.pair == std::array{0.8, 1.0});
  CHECK(outer.numbers == std::vector{1.0, 0.1, 3.0});
  CHECK(outer.limit.bytes == std::size_t{2} * 1024 * 1024);
  CHECK(outer.colour == Colour::kBlue);
  CHECK(outer.clip == 1.0);
  CHECK(outer.budget == ByteSize{4096});
  CHECK(outer.inner == Inner{.warmup_steps = 7, .scale = 3.0});
  CHECK(outer.extra == Inner{.warmup_steps = 9, .scale = 0.5});
}

TEST_CASE("a conversation in a list of strings is held as JSON, and written as it was read") {
  constexpr const char* kTalk = R"({"messages":[{"role":"user","content":"a"}]})";
  const Outer outer = read(std::string(R"({"words": ["b", {"messages": [{"role": "user", "content":
    "a"}]}, "{\"a\"", "{\"b\": 1}"]})"));
  CHECK(outer.words == std::vector<std::string>{"b", kTalk, R"({"a")", R"({"b": 1})"});
  const std::string written = strata::write_fields(outer);
  CHECK(read(written) == outer);
  CHECK_THAT(written,
             ContainsSubstring(R"("content": "a")") && ContainsSubstring(R"("{\"b\": 1}")"));
  CHECK_THAT(complaint(R"({"words": [{"prompt": "a"}]})"),
             ContainsSubstring("objects {\"messages\"}, found [{\"prompt\":\"a\"}]"));
}

TEST_CASE("sources are a path, a list of paths, or objects with weights") {
  struct Data {
    strata::FileSources train{};
    void fields(FieldList& f) { f.add("train", train, "what to read"); }
  };
  const auto read_sources = [](const std::string& json) {
    Data data;
    strata::read_fields(data, R"({"train": )" + json + "}", "test");
    const std::string written = strata::write_fields(data);
    Data back;
    strata::read_fields(back, written, "test");
    CHECK(back.train == data.train);
    return data.train.list;
  };
  using List = std::vector<strata::FileSource>;
  CHECK(read_sources(R"("a.bin")") == List{{.files = {"a.bin"}}});
  CHECK(read_sources(R"("")").empty());
  CHECK(read_sources(R"(["a.bin", "b.bin"])") == List{{.files = {"a.bin", "b.bin"}}});
  CHECK(read_sources(R"([{"path": "a.bin", "weight": 0.7},
                         {"path": ["b.bin", "c.bin"], "weight": 3}])") ==
        List{{.files = {"a.bin"}, .weight = 0.7}, {.files = {"b.bin", "c.bin"}, .weight = 3}});
  for (const char* wrong :
       {"3", "[]", "[3]", R"([""])", R"([["a"]])", R"([{"path": "a"}])", R"(["a", {"path": "b",
        "weight": 1}])",
        R"([{"path": [], "weight": 1}])", R"([{"path": "a", "weight": "1"}])",
        R"([{"path": "a", "weight": 1, "epochs": 2}])", R"({"path": "a", "weight": 1})", "null"}) {
    INFO(wrong);
    REQUIRE_THROWS_WITH(read_sources(wrong), ContainsSubstring("train: expected a path"));
  }
  Data data;
  const std::vector<std::string> sets{R"(train=["a", "b"])"};
  strata::read_fields(data, "{}", "test", sets);
  CHECK(data.train.text() == "2 files");
}

TEST_CASE("null makes an optional field absent and is refused elsewhere") {
  Outer outer;
  outer.clip = 1.0;
  outer.extra = Inner{};
  strata::read_fields(outer, R"({"clip": null, "extra": null})", "test.json");
  CHECK_FALSE(outer.clip.has_value());
  CHECK_FALSE(outer.extra.has_value());
  CHECK_THAT(complaint(R"({"count": null})"), ContainsSubstring("count: expected an integer"));
}

TEST_CASE("integers keep all 64 bits and whole numbers with an exponent are integers") {
  CHECK(read(R"({"count": 9223372036854775807})").count == INT64_MAX);
  CHECK(read(R"({"count": -9223372036854775808})").count == INT64_MIN);
  CHECK(read(R"({"count": 1e6})").count == 1000000);
  CHECK_THAT(complaint(R"({"count": 9223372036854775808})"), ContainsSubstring("count: expected"));
  CHECK_THAT(complaint(R"({"count": 1.5})"), ContainsSubstring("found 1.5"));
}

TEST_CASE("an unknown key is an error with its path and the nearest valid key") {
  CHECK_THAT(complaint(R"({"inner": {"warmup_step": 1}})"),
             ContainsSubstring("inner.warmup_step: unknown key; did you mean inner.warmup_steps?"));
  CHECK_THAT(complaint(R"({"coutn": 1})"), ContainsSubstring("did you mean count?"));
}

TEST_CASE("a key that is gone is an error that says why and what to do") {
  const std::string expected =
      "inner.skale: this key is gone: scales are spelled scale now; rename it";
  CHECK_THAT(complaint(R"({"inner": {"skale": 1}})"), ContainsSubstring(expected));
  CHECK_THAT(complaint("{}", {"inner.skale=1"}), ContainsSubstring(expected));
  CHECK_THAT(complaint(R"({"skale": 1})"), ContainsSubstring("did you mean inner.scale?"));
  CHECK_THAT(strata::describe_fields(Outer{}, 96), !ContainsSubstring("skale"));
}

TEST_CASE("a key in the wrong section is found in its own") {
  CHECK_THAT(complaint(R"({"scale": 1})"), ContainsSubstring("did you mean inner.scale?"));
}

TEST_CASE("a key that resembles nothing is told the valid ones") {
  CHECK_THAT(complaint(R"({"inner": {"gradient_dtype": 1}})"),
             ContainsSubstring("unknown key; valid here: warmup_steps scale"));
}

TEST_CASE("all problems are shown at once") {
  const std::string text = complaint(R"({
    "flag": 1, "count": "12", "rate": [], "name": 5, "words": ["a", 1], "pair": [1, 2, 3],
    "limit": "12 parsec", "colour": "green", "inner": 4, "tpyo": true})",
                                     {"no_equals_sign"});
  CHECK_THAT(text, ContainsSubstring("test.json: 11 problems"));
  CHECK_THAT(text, ContainsSubstring("flag: expected true or false, found 1\n"));
  CHECK_THAT(text, ContainsSubstring("count: expected an integer, found \"12\"\n"));
  CHECK_THAT(text, ContainsSubstring("rate: expected a number, found []\n"));
  CHECK_THAT(text, ContainsSubstring("name: expected a string, found 5\n"));
  CHECK_THAT(text,
             ContainsSubstring(
                 "words: expected a list of strings or objects {\"messages\"}, found [\"a\",1]\n"));
  CHECK_THAT(text, ContainsSubstring("pair: expected a list of two numbers, found [1,2,3]\n"));
  CHECK_THAT(text, ContainsSubstring("limit: expected a size such as \"24GiB\""));
  CHECK_THAT(text, ContainsSubstring("colour: expected one of \"red\" \"blue\", found \"green\""));
  CHECK_THAT(text, ContainsSubstring("inner: expected an object with keys, found 4"));
  CHECK_THAT(text, ContainsSubstring("tpyo: unknown key"));
  CHECK_THAT(text, ContainsSubstring("no_equals_sign: expected KEY=VALUE"));
}

TEST_CASE("a key that is given twice is an error with its path") {
  CHECK_THAT(complaint(R"({"inner": {"scale": 1, "scale": 1}, "count": 1})"),
             ContainsSubstring("inner.scale: given twice"));
  CHECK(complaint(R"({"inner": {"scale": 1}, "extra": {"scale": 2}})") == "no error");
}

TEST_CASE("text that is not a JSON object is refused with its place") {
  CHECK_THAT(complaint("{\n\"count\": }"), ContainsSubstring("test.json: not valid JSON"));
  CHECK_THAT(complaint("{\n\"count\": }"), ContainsSubstring("line 2"));
  CHECK_THAT(complaint("{\"count\": 1} trailing"), ContainsSubstring("not valid JSON"));
  CHECK_THAT(complaint("[1]"), ContainsSubstring("expected a JSON object"));
  CHECK_THAT(complaint(""), ContainsSubstring("not valid JSON"));
}

TEST_CASE("comments and a $schema at the top are accepted") {
  CHECK(read(R"(// for "editors
    {"$schema": "https://somewhere/config.json", /* how many */ "count": 5})")
            .count == 5);
  CHECK_THAT(complaint(R"({"inner": {"$schema": "x"}})"), ContainsSubstring("inner.$schema"));
}

TEST_CASE("nesting is bounded in the text and in assignments") {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  CHECK_THAT(complaint(deep), ContainsSubstring("more than 64 levels deep"));
  CHECK_THAT(complaint("{\"inner\": " + deep + "}"), ContainsSubstring("test.json: objects and"));
  CHECK_THAT(complaint("{}", {"count=" + deep}),
             ContainsSubstring("count: objects and lists nest more than 64 levels deep"));
  std::string path = "count";
  for (int i = 0; i < 100'000; ++i) path += ".a";
  CHECK_THAT(complaint("{}", {path + "=1"}), ContainsSubstring("no key has so many parts"));
}

TEST_CASE("what was found is cut where it is long, and so are many problems") {
  const std::string text = complaint(R"({"count": ")" + std::string(10'000, 'x') + R"("})");
  CHECK_THAT(text, ContainsSubstring("found \"xxxx") && ContainsSubstring("xxx..."));
  CHECK(text.size() < 200);
  CHECK(complaint("{\"" + std::string(10'000, 'k') + "\": 1}").size() < 300);
  CHECK(complaint("{\"name\": \"" + std::string(10'000, 'x')).size() < 400);
  std::string many = "{";
  for (int i = 0; i < 1000; ++i) many += "\"k" + std::to_string(i) + "\": 1, ";
  CHECK_THAT(complaint(many + "\"l\": 1}"),
             ContainsSubstring("1001 problems") && ContainsSubstring("and 951 more"));
}

TEST_CASE("a name that a zero byte would cut is refused") {
  CHECK_THAT(complaint(R"({"name": "a\u0000b"})"), ContainsSubstring("name: expected a string"));
}

TEST_CASE("an assignment with two equals signs is told the right one") {
  CHECK_THAT(complaint("{}", {"count==3"}),
             ContainsSubstring("count: is set with \"==\"; did you mean count=3?"));
}

TEST_CASE("assignments win over the text, the last one over those before") {
  CHECK(read(R"({"count": 1})", {"count=2", "count=3"}).count == 3);
  CHECK(read(R"({"inner": {"scale": 1}})", {"inner.warmup_steps=2"}).inner ==
        Inner{.warmup_steps = 2, .scale = 1.0});
}

TEST_CASE("the value of an assignment is JSON if it parses, else a string") {
  CHECK(read("{}", {"name=corpus.bin"}).name == "corpus.bin");
  CHECK(read("{}", {"name=\"quoted\""}).name == "quoted");
  CHECK(read("{}", {"name=a=b"}).name == "a=b");
  CHECK(read("{}", {"name="}).name.empty());
  CHECK(read("{}", {"limit=24GiB"}).limit.bytes == std::size_t{24} << 30);
  CHECK(read("{}", {"pair=[0.5, 0.25]"}).pair == std::array{0.5, 0.25});
  CHECK(read(R"({"clip": 1})", {"clip=null"}).clip == std::nullopt);
  CHECK(read("{}", {"colour=blue"}).colour == Colour::kBlue);
}

TEST_CASE("a string field may be assigned a name that looks like a number") {
  CHECK(read("{}", {"name=2024"}).name == "2024");
  CHECK(read("{}", {"name=true"}).name == "true");
}

TEST_CASE("an assignment makes the section that it goes into") {
  CHECK(read("{}", {"extra.scale=2"}).extra == Inner{.warmup_steps = 7, .scale = 2.0});
  CHECK(read(R"({"extra": null})", {"extra.scale=2"}).extra.has_value());
  CHECK_THAT(complaint(R"({"count": 1})", {"count.x=2"}),
             ContainsSubstring("count.x: cannot be set: count is not an object"));
  CHECK_THAT(complaint("{}", {"inner.scal=2"}), ContainsSubstring("did you mean inner.scale?"));
}

TEST_CASE("what is written reads back to the same values") {
  Outer outer;
  outer.flag = true;
  outer.count = INT64_MAX;
  outer.rate = 0.1 + 0.2;
  outer.name = "line\nbreak \"quote\" \xc3\xa4";
  outer.words = {};
  outer.pair = {1e-300, 0.999999999999};
  outer.limit = {std::size_t{3} << 30};
  outer.colour = Colour::kBlue;
  outer.budget = ByteSize{12345};
  outer.extra = Inner{.warmup_steps = -1, .scale = 1e22};
  const std::string text = strata::write_fields(outer);
  CHECK(read(text) == outer);
  CHECK_THAT(text, ContainsSubstring("\"limit\": \"3GiB\""));
  CHECK_THAT(text, ContainsSubstring("\"clip\": null"));
}

TEST_CASE("the description lists path, type, default and meaning of every field") {
  const std::string text = strata::describe_fields(Outer{}, 96);
  CHECK_THAT(text, ContainsSubstring("rate                "));
  CHECK_THAT(text, ContainsSubstring("1e-05"));
  CHECK_THAT(text, ContainsSubstring("how fast\n"));
  CHECK_THAT(text, ContainsSubstring("red|blue"));
  CHECK_THAT(text, ContainsSubstring("inner.warmup_steps"));
  CHECK_THAT(text, ContainsSubstring("extra.scale"));
}

TEST_CASE("the description keeps to its columns where words allow") {
  for (const std::size_t columns : {40, 60, 96}) {
    std::istringstream lines(strata::describe_fields(Outer{}, columns));
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= columns);
  }
}

TEST_CASE("listing the keys of an absent section leaves it absent") {
  Outer outer;
  CHECK_THAT(strata::describe_fields(strata::fields_of(outer), 96),
             ContainsSubstring("extra.scale"));
  strata::read_fields(outer, "{}", "test.json");
  CHECK_FALSE(outer.extra.has_value());
}

TEST_CASE("long descriptions are broken between words and indented") {
  struct Wordy {
    double rate = 1;
    void fields(FieldList& f) { f.add("rate", rate, text); }
    std::string text;
  };
  Wordy wordy;
  for (int i = 0; i < 20; ++i) wordy.text += "elephant ";
  const std::string line =
      "      elephant elephant elephant elephant elephant elephant elephant "
      "elephant elephant elephant\n";
  CHECK(strata::describe_fields(wordy, 96) == "rate  number  1.0\n" + line + line);
}

TEST_CASE("the Markdown has a heading and a table for every section") {
  const std::string text = strata::markdown_fields(Outer{});
  const std::string head = "| key | type | default | what it is for |\n|---|---|---|---|\n";
  CHECK(text.starts_with(head + "| `flag` | bool | `false` | a switch |\n"));
  CHECK_THAT(text, ContainsSubstring("\n\n## inner\n\na section\n\n" + head +
                                     "| `inner.warmup_steps` | integer | `7` |"));
  CHECK_THAT(text, ContainsSubstring("## extra\n\na section that may be absent\n\n" + head +
                                     "| `extra` | section | `null` |"));
}

TEST_CASE("the Markdown table escapes the bars of its cells") {
  const std::string text = strata::markdown_fields(Outer{});
  CHECK_THAT(text,
             ContainsSubstring("| `colour` | red\\|blue | `\"red\"` | red \\| blue, mostly |"));
}

TEST_CASE("what a text and assignments give is listed by path, be it known or not") {
  Outer outer;
  const strata::FieldList fields = strata::fields_of(outer);
  CHECK(strata::given_paths(fields, R"({"clip": null, "inner": {"scale": 1}, "other": [1]})", "t",
                            std::vector<std::string>{"count=3", "inner.warmup_steps=1"}) ==
        std::vector<std::string>{"clip", "inner.scale", "inner.warmup_steps", "other", "count"});
  CHECK(strata::given_paths(fields, "{}", "t").empty());
  CHECK_THROWS_AS(strata::given_paths(fields, "[]", "t"), ConfigError);
}

TEST_CASE("differing fields are named by path") {
  Outer a;
  Outer b;
  CHECK(strata::differing_fields(a, b).empty());
  b.inner.scale = 9;
  b.clip = 1.0;
  b.extra = Inner{};
  CHECK(strata::differing_fields(a, b) == std::vector<std::string>{"clip", "inner.scale", "extra"});
}

TEST_CASE("numbers outside of their limits are told by key, with the remark of the limit") {
  struct Limited {
    std::int64_t width = 0;
    std::int64_t steps = 0;
    double share = 1.5;
    std::optional<double> clip = 0.0;
    double decay = -1;
    std::optional<ByteSize> limit = ByteSize{0};
    void fields(FieldList& f) {
      f.add("width", width, "how wide").require().from(1);
      f.add("steps", steps, "how many").from(1, 8);
      f.add("share", share, "how much").from(0, 1);
      f.add("clip", clip, "at most").above(0, "null turns it off");
      f.add("decay", decay, "how fast").at_least(0);
      f.add("limit", limit, "at most this much").above(0);
    }
  };
  const auto complaint_about = [](Limited limited) {
    strata::ConfigProblems problems;
    strata::check_limits(strata::fields_of(limited), "run.", problems);
    try {
      problems.throw_if_any("test");
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(complaint_about({}) ==
        "test: 6 problems\n"
        "  run.width: is required\n"
        "  run.steps: must be from 1 to 8, not 0\n"
        "  run.share: must be in [0, 1]\n"
        "  run.clip: must be above 0; null turns it off\n"
        "  run.decay: must not be negative\n"
        "  run.limit: must be above 0");
  CHECK(complaint_about({.width = 1,
                         .steps = 8,
                         .share = 0,
                         .clip = std::nullopt,
                         .decay = 0,
                         .limit = ByteSize{1}})
            .empty());
}
