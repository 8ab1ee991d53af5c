// A pseudo terminal, for tests of what people see there.

#pragma once

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "support/catch.h"
#include "support/logger_before.h"

namespace strata::test {

class Terminal {
 public:
  explicit Terminal(unsigned short columns) : main_(posix_openpt(O_RDWR | O_NOCTTY)) {
    REQUIRE(main_ >= 0);
    REQUIRE((grantpt(main_) == 0 && unlockpt(main_) == 0));
    name_ = ptsname(main_);
    side_ = open(name_.c_str(), O_RDWR | O_NOCTTY);
    REQUIRE(side_ >= 0);
    const winsize size{.ws_row = 25, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    REQUIRE(ioctl(side_, TIOCSWINSZ, &size) == 0);
  }
  ~Terminal() {
    close(side_);
    close(main_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Returns the file that programs write to.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] int side() const { return side_; }

  /// Blocks until this was written, and returns what was written up to it.
  [[nodiscard]] std::string read_until(const std::string& end) const {
    std::string text;
    for (char c = 0; !text.ends_with(end) && read(main_, &c, 1) == 1;) text += c;
    return text;
  }
  /// Says that everything was written, so that read_shown() returns.
  void end() const { REQUIRE(write(side_, kMark, sizeof kMark - 1) == sizeof kMark - 1); }
  /// Returns what was written until end() was called. The terminal's side is still open then: what
  /// a terminal does with text that nobody has read when it closes is its own matter, and takes a
  /// while on a busy machine. A terminal holds a few KiB: who writes more needs somebody who reads.
  /// `look` is called with all that was written so far, whenever there is more.
  [[nodiscard]] std::string read_shown(const std::function<void(const std::string&)>& look =
                                           [](const std::string&) {}) const {
    std::string text;
    for (char c = 0; !text.ends_with(kMark) && read(main_, &c, 1) == 1;) {
      text += c;
      look(text);
    }
    if (text.ends_with(kMark)) text.resize(text.size() - (sizeof kMark - 1));
    return text;
  }

 private:
  static constexpr char kMark[] = "(end)";

  int main_;
  int side_ = -1;
  std::string name_;
};

/// Puts another file in the place of standard error, and what logs by then back in the end.
class StandardError {
 public:
  explicit StandardError(int replacement) : before_(dup(STDERR_FILENO)) {
    dup2(replacement, STDERR_FILENO);
  }
  ~StandardError() {
    dup2(before_, STDERR_FILENO);
    close(before_);
  }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;

 private:
  LoggerBefore logger_;
  int before_;
};

}  // namespace strata::test
