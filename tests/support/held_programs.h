// Two pipes for programs that tests start: what a program reads from the first never ends while the
// test lives, and the second tells when the last program has gone. A test of what ends programs so
// needs none that sleeps for a time.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>

#include "support/catch.h"
#include "support/patience.h"

namespace strata::test {

class HeldPrograms {
 public:
  HeldPrograms() {
    REQUIRE(::pipe(hold_.data()) == 0);
    REQUIRE(::pipe(alive_.data()) == 0);
    // Programs have neither the end that would hold them nor the one that the test reads.
    REQUIRE(::fcntl(hold_[1], F_SETFD, FD_CLOEXEC) == 0);
    REQUIRE(::fcntl(alive_[0], F_SETFD, FD_CLOEXEC) == 0);
  }
  ~HeldPrograms() {
    for (const int end : {hold_[0], hold_[1], alive_[0], alive_[1]}) {
      if (end >= 0) ::close(end);
    }
  }
  HeldPrograms(const HeldPrograms&) = delete;
  HeldPrograms& operator=(const HeldPrograms&) = delete;

  /// Returns the command of a shell that waits until the test lets it go, which is never.
  [[nodiscard]] std::string wait() const { return "cat </dev/fd/" + std::to_string(hold_[0]); }
  /// Returns the command of a shell that says something to the test.
  [[nodiscard]] std::string speak() const { return "echo >/dev/fd/" + std::to_string(alive_[1]); }
  /// Returns whether a program has spoken, or waits for one that does.
  [[nodiscard]] bool has_spoken() const {
    pollfd wanted{.fd = alive_[0], .events = POLLIN, .revents = 0};
    return ::poll(&wanted, 1, 0) > 0;
  }
  [[nodiscard]] bool speaks() const { return becomes_readable(alive_[0]); }
  /// Waits until every program that was started has ended, and whatever those have started. None
  /// can be started after that. Returns false if one stays.
  [[nodiscard]] bool all_end() {
    ::close(alive_[1]);
    alive_[1] = -1;
    std::array<char, 64> said{};
    while (becomes_readable(alive_[0])) {
      if (::read(alive_[0], said.data(), said.size()) == 0) return true;
    }
    return false;
  }

 private:
  std::array<int, 2> hold_{-1, -1};   ///< programs read the first end, the test has the second
  std::array<int, 2> alive_{-1, -1};  ///< programs have the second end, the test reads the first
};

}  // namespace strata::test
