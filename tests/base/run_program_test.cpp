// Tests what other programs are asked, and that none holds a run up.

#include "strata/base/run_program.h"

#include <string>

#include "support/catch.h"
#include "support/held_programs.h"
#include "support/patience.h"

namespace strata::test {

TEST_CASE("a program's output is its answer, and its arguments reach it as they are") {
  const ProgramAnswer answer = run_program({"printf", "%s|", "a b", "$HOME", ""}, kPatienceS);
  CHECK(answer.failure == "");
  CHECK(answer.text == "a b|$HOME||");
}

TEST_CASE("a program that is not there or fails says so") {
  CHECK_THAT(run_program({"no-such-program"}, kPatienceS).failure,
             ContainsSubstring("No such file"));
  CHECK(run_program({"sh", "-c", "echo x; exit 3"}, kPatienceS).failure == "ended with code 3");
  CHECK(run_program({"sh", "-c", "kill -9 $$"}, kPatienceS).failure == "ended by signal 9");
}

TEST_CASE("a program that does not end is killed, and so is what it started") {
  for (const char* const script : {"WAIT; true", "exec > /dev/null; WAIT; true", "yes"}) {
    INFO(script);
    HeldPrograms held;
    std::string command = script;
    if (const std::size_t at = command.find("WAIT"); at != command.npos) {
      command.replace(at, 4, held.wait());
    }
    // None of them ends by itself, so the limit may be as short as one likes.
    const ProgramAnswer answer = run_program({"sh", "-c", command}, 0.3);
    CHECK_THAT(answer.failure, ContainsSubstring("no answer"));
    CHECK(answer.text.size() < 80000);
    CHECK(held.all_end());
  }
}

}  // namespace strata::test
