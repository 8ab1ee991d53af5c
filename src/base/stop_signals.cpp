// Catches the signals that end a program. A handler may touch nothing but lock-free atomics, and
// the system gives it no place to keep them: they are the one thing here that lives outside of an
// object.

#include "strata/base/stop_signals.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>

namespace strata {

namespace {

constexpr std::int64_t kEchoMs = 1000;
constexpr std::array<int, 5> kCaught{SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGXCPU};
constexpr std::array<int, 2> kIgnored{SIGPIPE, SIGXFSZ};
constexpr std::array<int, 5> kOutlasted{SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGXCPU};

std::atomic<int> first_signal{0};
std::atomic<int> save_requests{0};
std::array<std::atomic<std::int64_t>, NSIG> first_ms{};  // of each signal; 0: it has not come
std::atomic<StopSignals::ClockMs> now_ms{StopSignals::steady_ms};
static_assert(std::atomic<int>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free &&
              std::atomic<StopSignals::ClockMs>::is_always_lock_free);

extern "C" void remember_signal(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  const std::int64_t ms = now_ms.load()();
  std::int64_t since_ms = 0;
  if (first_ms[static_cast<std::size_t>(signal)].compare_exchange_strong(since_ms, ms)) return;
  if (signal == SIGXCPU || ms - since_ms < kEchoMs) return;
  ::signal(signal, SIG_DFL);
  raise(signal);  // is delivered when the handler returns
}

extern "C" void remember_save(int) { save_requests = 1; }

}  // namespace

std::string signal_name(int signal) {
  switch (signal) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGUSR1: return "SIGUSR1";
    case SIGHUP: return "SIGHUP";
    case SIGXCPU: return "SIGXCPU";
    case kTimeOver: return "the time limit";
    default: return "signal " + std::to_string(signal);
  }
}

struct StopSignals::Actions {
  std::array<struct sigaction, kCaught.size()> caught;
  struct sigaction save;
  std::array<struct sigaction, kIgnored.size()> ignored;
};

std::int64_t StopSignals::steady_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

StopSignals::StopSignals(Afterwards afterwards, ClockMs clock)
    : before_(std::make_unique<Actions>()), afterwards_(afterwards) {
  first_signal = 0;
  for (std::atomic<std::int64_t>& ms : first_ms) ms = 0;
  now_ms = clock;
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  action.sa_handler = remember_signal;
  for (std::size_t i = 0; i < kCaught.size(); ++i) {
    sigaction(kCaught[i], nullptr, &before_->caught[i]);
    if (before_->caught[i].sa_handler != SIG_IGN) sigaction(kCaught[i], &action, nullptr);
  }
  save_requests = 0;
  action.sa_handler = remember_save;
  sigaction(SIGUSR2, &action, &before_->save);
  action.sa_handler = SIG_IGN;
  for (std::size_t i = 0; i < kIgnored.size(); ++i) {
    sigaction(kIgnored[i], &action, &before_->ignored[i]);
  }
}

StopSignals::~StopSignals() {
  first_signal = 0;
  if (afterwards_ == Afterwards::kOutlast) {
    outlast_stops();
  } else {
    sigaction(SIGUSR2, &before_->save, nullptr);
  }
  for (std::size_t i = 0; i < kCaught.size(); ++i) {
    if (afterwards_ == Afterwards::kAsBefore || kCaught[i] == SIGINT) {
      sigaction(kCaught[i], &before_->caught[i], nullptr);
    }
  }
  for (std::size_t i = 0; i < kIgnored.size(); ++i) {
    sigaction(kIgnored[i], &before_->ignored[i], nullptr);
  }
}

int StopSignals::received() const { return first_signal; }

bool StopSignals::take_save_request() { return save_requests.exchange(0) != 0; }

void throw_if_stopped() {
  if (const int signal = first_signal) throw Interrupted(signal);
}

void outlast_stops() {
  for (const int signal : kOutlasted) ::signal(signal, SIG_IGN);
}

}  // namespace strata
