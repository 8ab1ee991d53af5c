// Tests what other programs are asked, and that none holds a run up.

#include "strata/base/run_program.h"

#include "strata/base/process.h"
#include "support/catch.h"

namespace strata::test {

TEST_CASE("a program's output is its answer, and its arguments reach it as they are") {
  const ProgramAnswer answer = run_program({"printf", "%s|", "a b", "$HOME", ""}, 10);
  CHECK(answer.failure == "");
  CHECK(answer.text == "a b|$HOME||");
}

TEST_CASE("a program that is not there or fails says so") {
  CHECK_THAT(run_program({"no-such-program"}, 10).failure, ContainsSubstring("No such file"));
  CHECK(run_program({"sh", "-c", "echo x; exit 3"}, 10).failure == "ended with code 3");
  CHECK(run_program({"sh", "-c", "kill -9 $$"}, 10).failure == "ended by signal 9");
}

TEST_CASE("a program that does not end is killed, and so is what it started") {
  for (const char* const script : {"sleep 60; true", "exec > /dev/null; sleep 60", "yes"}) {
    INFO(script);
    const double begin_s = steady_seconds();
    const ProgramAnswer answer = run_program({"sh", "-c", script}, 0.1);
    CHECK_THAT(answer.failure, ContainsSubstring("no answer"));
    CHECK(answer.text.size() < 80000);
    CHECK(steady_seconds() - begin_s < 10);
  }
}

}  // namespace strata::test
