// Tests how a suite is read, what it is refused for, and which command a row stands for.

#include "strata/benchmark/suite.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/run_program.h"
#include "support/catch.h"
#include "support/patience.h"

namespace strata::test {

namespace {

namespace fs = std::filesystem;

/// Reads a text as a suite that lies in a folder.
Suite read(const std::string& text) {
  const fs::path file =
      fs::temp_directory_path() / ("strata_suite_" + std::to_string(::getpid()) + ".json");
  std::ofstream(file) << text;
  return read_suite(file);
}

const std::string kTwoRows = R"({
  // a suite may say why
  "title": "two", "repeats": 5, "limit_minutes": 2,
  "settings": {"short": ["run.steps=4", "run.threads=1"], "clip": ["optimizer.grad_clip=1"]},
  "rows": [
    {"name": "a", "title": "steps", "config": "../a.json", "use": ["clip", "short"],
     "set": ["run.steps=8"]},
    {"name": "b-1.5", "config": "b.json", "repeats": 1, "limit_minutes": 0.5,
     "generate": {"prompts": 3, "batch": 2, "kv_dtype": "int8"}}
  ]
})";

}  // namespace

TEST_CASE("rows get the groups that they use, then their own settings, and what the suite says") {
  const Suite suite = read(kTwoRows);
  CHECK(suite.title == "two");
  REQUIRE(suite.rows.size() == 2);
  const SuiteRow& a = suite.rows[0];
  CHECK(a.config == (fs::temp_directory_path().parent_path() / "a.json").lexically_normal());
  CHECK(a.sets == std::vector<std::string>{"optimizer.grad_clip=1", "run.steps=4", "run.threads=1",
                                           "run.steps=8"});
  CHECK(a.repeats == 5);
  CHECK(a.limit_minutes == 2);
  const SuiteRow& b = suite.rows[1];
  CHECK(b.title == "b-1.5");
  CHECK(b.repeats == 1);
  CHECK(b.limit_minutes == 0.5);
}

TEST_CASE("a row stands for the command that measures it alone") {
  Suite suite = read(kTwoRows);
  suite.rows[0].config = "a.json";
  suite.rows[1].config = "b.json";
  CHECK(shell_line(arguments_of(suite.rows[0])) ==
        "bench a.json --set optimizer.grad_clip=1 --set run.steps=4 --set run.threads=1 --set "
        "run.steps=8");
  CHECK(shell_line(arguments_of(suite.rows[1])) ==
        "bench b.json --generate --prompts 3 --prompt-tokens 512 --max-tokens 128 --batch 2 "
        "--kv-dtype int8");
}

TEST_CASE("a shell reads a line back to the words that it was made of") {
  const std::vector<std::string> words{"printf", "%s|",   "plain", "a b", "",
                                       "it's",   "$HOME", "*",     "\\n", "optimizer.betas=[0,1]"};
  const ProgramAnswer answer = run_program({"sh", "-c", shell_line(words)}, kPatienceS);
  CHECK(answer.failure == "");
  CHECK(answer.text == "plain|a b||it's|$HOME|*|\\n|optimizer.betas=[0,1]|");
}

TEST_CASE("rows are chosen by name, in the suite's order") {
  Suite suite = read(kTwoRows);
  select_rows(suite, std::vector<std::string>{"b-1.5", "a"});
  REQUIRE(suite.rows.size() == 2);
  CHECK(suite.rows[0].name == "a");
  select_rows(suite, std::vector<std::string>{"b-1.5"});
  REQUIRE(suite.rows.size() == 1);
  CHECK(suite.rows[0].name == "b-1.5");
  CHECK_THROWS_WITH(select_rows(suite, std::vector<std::string>{"c"}),
                    ContainsSubstring("has no row \"c\"; its rows are b-1.5"));
}

TEST_CASE("what is wrong with a suite is said by file, row and key") {
  struct Case {
    std::string text;
    std::string says;
  };
  const std::string rows = R"("rows": [{"name": "a", "config": "a.json")";
  for (const Case& c : std::vector<Case>{
           {"{", "is not JSON"},
           {"[]", "is no suite"},
           {"{}", "rows: is missing, and a list"},
           {R"({"rows": []})", "rows: is []"},
           {R"({"rows": [1]})", "row 1: is 1, and an object"},
           {R"({"rows": [{"config": "a.json"}]})", "name: has to be given"},
           {R"({"rows": [{"name": "a b", "config": "a.json"}]})", "row 1 (a b)"},
           {R"({"rows": [{"name": "a"}]})", "config: has to be given"},
           {"{" + rows + R"(, "sets": []}]})", "sets: unknown key; did you mean set?"},
           {"{" + rows + R"(, "set": ["run.steps"]}]})", "\"run.steps\" is no setting"},
           {"{" + rows + R"(, "use": ["long"]}]})", "no group \"long\"; there are none"},
           {R"({"settings": {"short": ["a=1"]}, )" + rows + R"(, "use": ["x"]}]})",
            "there are short"},
           {R"({"settings": {"short": "a=1"}, )" + rows + "}]}", "settings.short: is \"a=1\""},
           {R"({"settings": {"short": ["="]}, )" + rows + "}]}", "settings.short: \"=\""},
           {R"({"settings": [], )" + rows + "}]}", "settings: is []"},
           {R"({"repeat": 2, )" + rows + "}]}", "repeat: unknown key; did you mean repeats?"},
           {R"({"repeats": 0, )" + rows + "}]}", "repeats"},
           {"{" + rows + R"(, "repeats": 0}]})", "row 1 (a)"},
           {"{" + rows + R"(, "generate": {"prompts": 0}}]})", "row 1 (a)"},
           {"{" + rows + R"(, "generate": {"prompt": 1}}]})", "did you mean generate.prompts?"},
           {"{" + rows + R"(}, {"name": "a", "config": "b.json"}]})", "another row has it"}}) {
    CAPTURE(c.text);
    CHECK_THROWS_WITH(read(c.text),
                      ContainsSubstring("strata_suite_") && ContainsSubstring(c.says));
    CHECK_THROWS_AS(read(c.text), ConfigError);
  }
  CHECK_THROWS_AS(read_suite("/no/such/suite.json"), IoError);
}

}  // namespace strata::test
