// How long tests wait for what has to come. Only a hang takes that long, on a machine however slow
// and busy, so no test's outcome depends on when it comes.
#pragma once

#include <poll.h>

#include <chrono>
#include <future>
#include <thread>

#include "strata/base/process.h"

namespace strata::test {

inline constexpr double kPatienceS = 600;

/// Waits until `condition()` is true, looking every millisecond. Returns false if it does not
/// become so.
template <class Condition>
[[nodiscard]] bool comes_true(const Condition& condition) {
  const double begin_s = steady_seconds();
  while (!condition()) {
    if (steady_seconds() - begin_s > kPatienceS) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Waits for a promise to be kept. Returns false if it is not.
[[nodiscard]] inline bool comes_true(const std::shared_future<void>& future) {
  return future.wait_for(std::chrono::duration<double>(kPatienceS)) == std::future_status::ready;
}

/// Waits until a read of the file would return: there is something to read, or nobody holds the
/// other end. Returns false if that does not happen.
[[nodiscard]] inline bool becomes_readable(int file) {
  pollfd wanted{.fd = file, .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, static_cast<int>(1000 * kPatienceS)) > 0;
}

}  // namespace strata::test
