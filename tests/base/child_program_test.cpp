// Tests that a program that somebody waits for is told to end when it should, and that its end is
// told as it was.

#include "strata/base/child_program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/held_programs.h"
#include "support/patience.h"

namespace strata::test {

TEST_CASE("how a child ended is told as shells count it, with the last that it said") {
  const ChildEnd failed = run_child({"sh", "-c", "echo out; echo \"$1\" >&2; exit 3", "sh", "a b"},
                                    {.limit_s = kPatienceS});
  CHECK(failed.exit_code == 3);
  CHECK_FALSE(failed.signalled);
  CHECK_FALSE(failed.told);
  CHECK(failed.output == "out\na b\n");
  const ChildEnd killed = run_child({"sh", "-c", "kill -9 $$"}, {.limit_s = kPatienceS});
  CHECK(killed.exit_code == 137);
  CHECK(killed.signalled);
  CHECK_FALSE(killed.told);
}

TEST_CASE("of a child that says much the end is kept") {
  const ChildEnd end =
      run_child({"sh", "-c", "yes | head -c 1000000; echo last"}, {.limit_s = kPatienceS});
  CHECK(end.exit_code == 0);
  CHECK(end.output.size() == 65536);
  CHECK(end.output.ends_with("y\nlast\n"));
}

TEST_CASE("a child that cannot be started is an error that names it") {
  CHECK_THROWS_WITH(run_child({"no-such-program"}, {.limit_s = kPatienceS}),
                    ContainsSubstring("no-such-program") && ContainsSubstring("No such file"));
}

TEST_CASE("a child is told to end when its time is over or somebody says so, and killed after") {
  HeldPrograms held;
  // None of them ends by itself, so the limits may be as short as one likes.
  const ChildEnd late = run_child({"sh", "-c", "exec " + held.wait()}, {.limit_s = 0.1});
  CHECK(late.told);
  CHECK(late.exit_code == 128 + SIGTERM);
  const ChildEnd stopped =
      run_child({"sh", "-c", "exec " + held.wait()},
                {.limit_s = kPatienceS, .grace_s = kPatienceS, .stop = [] { return true; }});
  CHECK(stopped.told);
  CHECK(stopped.exit_code == 128 + SIGTERM);
  // It is told to end once it ignores that.
  const ChildEnd stubborn = run_child(
      {"sh", "-c", "trap '' TERM; " + held.speak() + "; " + held.wait() + "; " + held.wait()},
      {.limit_s = kPatienceS, .grace_s = 0.1, .stop = [&] { return held.has_spoken(); }});
  CHECK(stubborn.told);
  CHECK(stubborn.exit_code == 128 + SIGKILL);
  CHECK(held.all_end());
}

TEST_CASE("a child is told to end when its parent dies") {
  HeldPrograms held;
  const pid_t parent = ::fork();
  if (parent == 0) {
    static_cast<void>(
        run_child({"sh", "-c", held.speak() + "; exec " + held.wait()}, {.limit_s = kPatienceS}));
    ::_exit(0);
  }
  REQUIRE(held.speaks());
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  CHECK(held.all_end());
}

}  // namespace strata::test
