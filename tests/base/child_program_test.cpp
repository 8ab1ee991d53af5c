// Tests that a program that somebody waits for is told to end when it should, and that its end is
// told as it was.

#include "strata/base/child_program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>

#include "strata/base/error.h"
#include "strata/base/process.h"
#include "support/catch.h"

namespace strata::test {

TEST_CASE("how a child ended is told as shells count it, with the last that it said") {
  const ChildEnd failed =
      run_child({"sh", "-c", "echo out; echo \"$1\" >&2; exit 3", "sh", "a b"}, {.limit_s = 60});
  CHECK(failed.exit_code == 3);
  CHECK_FALSE(failed.signalled);
  CHECK_FALSE(failed.told);
  CHECK(failed.output == "out\na b\n");
  const ChildEnd killed = run_child({"sh", "-c", "kill -9 $$"}, {.limit_s = 60});
  CHECK(killed.exit_code == 137);
  CHECK(killed.signalled);
  CHECK_FALSE(killed.told);
}

TEST_CASE("of a child that says much the end is kept") {
  const ChildEnd end = run_child({"sh", "-c", "yes | head -c 1000000; echo last"}, {.limit_s = 60});
  CHECK(end.exit_code == 0);
  CHECK(end.output.size() == 65536);
  CHECK(end.output.ends_with("y\nlast\n"));
}

TEST_CASE("a child that cannot be started is an error that names it") {
  CHECK_THROWS_WITH(run_child({"no-such-program"}, {.limit_s = 60}),
                    ContainsSubstring("no-such-program") && ContainsSubstring("No such file"));
}

TEST_CASE("a child is told to end when its time is over or somebody says so, and killed after") {
  const double begin_s = steady_seconds();
  const ChildEnd late = run_child({"sleep", "60"}, {.limit_s = 0.1});
  CHECK(late.told);
  CHECK(late.exit_code == 128 + SIGTERM);
  const ChildEnd stopped =
      run_child({"sleep", "60"}, {.limit_s = 60, .grace_s = 10, .stop = [] { return true; }});
  CHECK(stopped.told);
  CHECK(stopped.exit_code == 128 + SIGTERM);
  const ChildEnd stubborn =
      run_child({"sh", "-c", "trap '' TERM; sleep 60; sleep 60"}, {.limit_s = 0.1, .grace_s = 0.1});
  CHECK(stubborn.told);
  CHECK(stubborn.exit_code == 128 + SIGKILL);
  CHECK(steady_seconds() - begin_s < 30);
}

TEST_CASE("a child is told to end when its parent dies") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    ::close(ends[0]);
    // The child holds the pipe's other end, which nobody else has once the parent is gone.
    static_cast<void>(
        run_child({"sh", "-c", "echo begun >&" + std::to_string(ends[1]) + "; exec sleep 60"},
                  {.limit_s = 60}));
    ::_exit(0);
  }
  ::close(ends[1]);
  std::array<char, 16> text{};
  REQUIRE(::read(ends[0], text.data(), text.size()) == 6);
  const double begin_s = steady_seconds();
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  CHECK(::read(ends[0], text.data(), text.size()) == 0);  // returns when the child is gone
  CHECK(steady_seconds() - begin_s < 30);
  ::close(ends[0]);
}

}  // namespace strata::test
