// Tests what signals do to a process that catches them, by raising them here and in a child. Time
// passes between them where a test says so, and not by itself.

#include <csignal>

#include "strata/base/stop_signals.h"

#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "support/catch.h"

using namespace strata;

namespace {

/// The milliseconds of these tests' clock. A handler reads them, which is why they have no owner.
std::int64_t& time_ms() {
  static std::int64_t ms = 1000;
  return ms;
}

/// Catches signals by that clock.
class Caught {
 public:
  explicit Caught(StopSignals::Afterwards afterwards = StopSignals::Afterwards::kAsBefore)
      : signals_(afterwards, [] { return time_ms(); }) {}
  [[nodiscard]] int received() const { return signals_.received(); }

 private:
  StopSignals signals_;
};

/// Returns how a child ended that does `body`.
template <class Body>
int status_of(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    ::signal(SIGINT, SIG_DFL);  // shells have what they start in the background ignore it
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

/// Returns how a child ended that catches signals and does `body`.
template <class Body>
int status_of_child(const Body& body) {
  return status_of([&] {
    const Caught signals;
    body();
  });
}

}  // namespace

TEST_CASE("a caught signal is remembered and ends nothing") {
  const Caught signals;
  CHECK(signals.received() == 0);
  raise(SIGTERM);
  CHECK(signals.received() == SIGTERM);
  time_ms() += 999;
  raise(SIGINT);  // an echo: so soon it ends nothing, and the first one stays
  CHECK(signals.received() == SIGTERM);
}

TEST_CASE("who catches signals anew has not received any") {
  {
    const Caught signals;
    raise(SIGINT);
  }
  const Caught signals;
  CHECK(signals.received() == 0);
}

TEST_CASE("a signal that comes a while after the first ends the process at once") {
  const int status = status_of_child([] {
    raise(SIGTERM);
    time_ms() += 1000;
    raise(SIGTERM);
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}

TEST_CASE("another signal than the first ends nothing, until it comes again itself") {
  const std::vector<int> stops{SIGINT, SIGTERM, SIGUSR1, SIGHUP};
  for (const int first : stops) {
    for (const int other : stops) {
      if (first == other) continue;
      const auto other_comes = [&](int times) {
        return status_of_child([&] {
          raise(first);
          for (int i = 0; i < times; ++i) {
            time_ms() += 1000;
            raise(other);
          }
        });
      };
      INFO(signal_name(first) << " and then " << signal_name(other));
      CHECK(other_comes(1) == 0);
      const int status = other_comes(2);
      REQUIRE(WIFSIGNALED(status));
      CHECK(WTERMSIG(status) == other);
    }
  }
}

TEST_CASE("SIGHUP and SIGXCPU ask a run to end, as SIGTERM does") {
  for (const int signal : {SIGHUP, SIGXCPU}) {
    const Caught signals;
    raise(signal);
    CHECK(signals.received() == signal);
    CHECK(Interrupted(signal).exit_code() == 128 + signal);
  }
  CHECK(std::string(Interrupted(SIGHUP).what()) == "ended by SIGHUP");
  CHECK(std::string(Interrupted(SIGXCPU).what()) == "ended by SIGXCPU");
}

TEST_CASE("SIGXCPU, which the kernel repeats by itself, never ends the process") {
  CHECK(status_of_child([] {
          for (int i = 0; i < 5; ++i) {
            raise(SIGXCPU);
            time_ms() += 1000;
          }
        }) == 0);
}

TEST_CASE("the clock of the system tells the milliseconds that pass") {
  const std::int64_t begin_ms = StopSignals::steady_ms();
  CHECK(begin_ms > 0);
  // Sleeps longer on a busy machine, which changes nothing.
  usleep(20'000);
  CHECK(StopSignals::steady_ms() - begin_ms >= 19);
}

TEST_CASE("a signal that the process was started with ignored stays ignored") {
  for (const int signal : {SIGINT, SIGHUP, SIGXCPU}) {
    struct sigaction before {};
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(signal, &ignore, &before);
    {
      const Caught signals;
      raise(signal);
      CHECK(signals.received() == 0);
    }
    sigaction(signal, &before, nullptr);
  }
}

TEST_CASE(
    "what outlasts stops ends with its own exit code, after a signal that was caught as well") {
  for (const int late : {SIGTERM, SIGUSR1, SIGHUP, SIGXCPU}) {
    const int status = status_of_child([late] {
      raise(SIGUSR1);
      time_ms() += 1100;
      outlast_stops();
      raise(late);
      _exit(75);
    });
    INFO(signal_name(late));
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 75);
  }
}

TEST_CASE("signals that come once all is over change nothing if that was asked for, but SIGINT") {
  for (const int late : {SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGXCPU, SIGINT}) {
    const int status = status_of([late] {
      { const Caught inner(StopSignals::Afterwards::kOutlast); }
      raise(late);
      _exit(75);
    });
    INFO(signal_name(late));
    if (late == SIGINT) {
      CHECK(WIFSIGNALED(status));
    } else {
      REQUIRE(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == 75);
    }
  }
}

TEST_CASE("a closed pipe is an error of the write while signals are caught") {
  CHECK(status_of_child([] {
          int ends[2];
          if (pipe(ends) != 0 || close(ends[0]) != 0) _exit(2);
          if (write(ends[1], "x", 1) != -1) _exit(3);
        }) == 0);
}

TEST_CASE("the exit code of an interrupted program is 128 and the signal") {
  CHECK(Interrupted(SIGTERM).exit_code() == 143);
  CHECK(Interrupted(SIGINT).exit_code() == 130);
  CHECK(Interrupted(kTimeOver).exit_code() == kUnsavedExitCode);  // no signal came
  CHECK(std::string(Interrupted(SIGTERM).what()) == "ended by SIGTERM");
}
