// For tests that configure the log: what they leave is taken back.

#pragma once

#include <spdlog/spdlog.h>

#include <memory>

namespace strata::test {

/// Puts the logger that was there when this was made back at its end.
class LoggerBefore {
 public:
  LoggerBefore() = default;
  ~LoggerBefore() { spdlog::set_default_logger(before_); }
  LoggerBefore(const LoggerBefore&) = delete;
  LoggerBefore& operator=(const LoggerBefore&) = delete;

 private:
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

}  // namespace strata::test
