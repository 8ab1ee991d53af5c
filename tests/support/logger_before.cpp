// Keeps the logger that was there before, and puts it back.

#include "support/logger_before.h"

#include <spdlog/spdlog.h>

namespace strata::test {

LoggerBefore::LoggerBefore() : before_(spdlog::default_logger()) {}

LoggerBefore::~LoggerBefore() {
  spdlog::set_default_logger(std::static_pointer_cast<spdlog::logger>(before_));
}

}  // namespace strata::test
