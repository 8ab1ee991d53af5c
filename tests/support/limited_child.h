// Runs code in a child process whose user may start only a few threads more, to see that a refusal
// becomes an error: nothing hangs, and nothing terminates.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/patience.h"

namespace strata::test {

/// How a child ended; `skipped` where the system lets it have all threads.
struct Ended {
  int exit_code = -1;  ///< -1: by a signal
  std::string text;    ///< what was thrown
  bool skipped = false;
};

/// Makes the calling process one that can start `threads` threads. Root is bound by no such limit,
/// so it becomes a user that nobody else is.
inline void allow_threads(int threads) {
  const auto user = static_cast<uid_t>(1000000 + getpid());
  const bool alone = geteuid() == 0 && setresuid(user, user, user) == 0;
  const auto most = static_cast<rlim_t>(alone ? 1 + threads : 0);
  const rlimit limit{most, most};
  (void)setrlimit(RLIMIT_NPROC, &limit);
}

/// Runs `body` in such a child, which is ended if it hangs.
inline Ended with_few_threads(const std::function<void()>& body, int threads = 3) {
  constexpr int kNothingThrown = 100;
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(static_cast<unsigned>(kPatienceS));
    allow_threads(threads);
    int code = kNothingThrown;
    std::string text;
    try {
      body();
    } catch (const Error& error) {
      code = error.exit_code();
      text = error.what();
    } catch (const std::exception& error) {
      code = kNothingThrown + 1;
      text = error.what();
    }
    (void)!write(ends[1], text.data(), text.size());
    _exit(code);
  }
  close(ends[1]);
  Ended ended;
  std::array<char, 512> part{};
  for (ssize_t n = 0; (n = read(ends[0], part.data(), part.size())) > 0;) {
    ended.text.append(part.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) ended.exit_code = WEXITSTATUS(status);
  ended.skipped = ended.exit_code == kNothingThrown;
  if (ended.skipped) WARN("skipped: the system sets this user no limit of threads");
  return ended;
}

}  // namespace strata::test
