// Catches what is logged while a test runs, so that the test can read it.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "strata/base/log.h"
#include "support/scratch_folder.h"

namespace strata::test {

/// Collects what is logged while it lives; one at a time.
class LogText {
 public:
  LogText() { log::configure(0, 1, file_); }
  ~LogText() { log::configure(0, 1, ""); }
  LogText(const LogText&) = delete;
  LogText& operator=(const LogText&) = delete;
  [[nodiscard]] std::string text() const {
    std::ifstream in(file_);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  ScratchFolder folder_;
  std::string file_ = folder_.file("log");
};

}  // namespace strata::test
