// Tests that a process's age starts with the process and grows with the clock.

#include "strata/base/process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "support/catch.h"

using namespace strata;

TEST_CASE("the age of a process grows with time and begins when it is started") {
  const double before_s = process_age_s();
  REQUIRE(before_s > 0);
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    // The bounds hold however much longer it takes until the age is looked at.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const double age_s = process_age_s();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    constexpr double kTick = 0.01;
    _exit(age_s >= 0.2 - kTick && age_s <= elapsed.count() + kTick ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(process_age_s() >= before_s + 0.2);
}
