// Takes back what a test leaves of the log that it configures.

#pragma once

#include <memory>

namespace strata::test {

/// Puts the logger that was there when this was made back at its end.
class LoggerBefore {
 public:
  LoggerBefore();
  ~LoggerBefore();
  LoggerBefore(const LoggerBefore&) = delete;
  LoggerBefore& operator=(const LoggerBefore&) = delete;

 private:
  std::shared_ptr<void> before_;  ///< a logger of spdlog
};

}  // namespace strata::test
