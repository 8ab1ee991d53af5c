// Tests what ranks write to the log file, read back as text, and what a terminal shows, which is a
// pseudo terminal in the place of standard error.

#include "strata/base/log.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "strata/base/error.h"
#include "support/catch.h"

using namespace strata;

namespace {

/// What two messages leave in the log file of one rank.
std::string logged_by(int rank) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() /
      ("strata_log_test_" + std::to_string(getpid()) + "_" + std::to_string(rank) + ".log");
  std::filesystem::remove(file);
  const auto before = spdlog::default_logger();
  log::configure(rank, 4, file.string());
  log::info("step {} done", 3);
  log::warn("slow disk");
  log::warn("a file named {}", "\x1b[2J");
  spdlog::default_logger()->flush();
  spdlog::set_default_logger(before);
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(file);
  return text;
}

/// Puts another file in the place of standard error; what goes there can be read back.
class StandardError {
 public:
  explicit StandardError(int replacement) : before_(dup(STDERR_FILENO)) {
    dup2(replacement, STDERR_FILENO);
  }
  ~StandardError() {
    spdlog::set_default_logger(logger_);
    dup2(before_, STDERR_FILENO);
    close(before_);
  }

 private:
  std::shared_ptr<spdlog::logger> logger_ = spdlog::default_logger();
  int before_;
};

/// Returns what can be read until nobody holds the other side.
std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t length = 0; (length = read(file, part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(length));
  }
  return text;
}

/// Returns what a terminal shows up to a mark that is written to its other side now. That side is
/// still open: what a terminal does with text that nobody has read when it closes is its own
/// matter, and takes a while on a busy machine.
std::string read_shown(int terminal, int side) {
  const std::string mark = "(end)";
  REQUIRE(write(side, mark.data(), mark.size()) == std::ssize(mark));
  std::string text;
  for (char c = 0; !text.ends_with(mark) && read(terminal, &c, 1) == 1;) text += c;
  REQUIRE(text.ends_with(mark));
  text.resize(text.size() - mark.size());
  return text;
}

/// Logs with a live line, 40 characters wide.
void log_with_live_line() {
  log::configure(0, 1, "");
  log::live("step 1");
  log::info("news");
  log::live(std::string(100, 'x'));
  log::live("");
}

}  // namespace

TEST_CASE("a terminal shows one live line below the log, no wider than itself") {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  REQUIRE((grantpt(terminal) == 0 && unlockpt(terminal) == 0));
  const int side = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  REQUIRE(side >= 0);
  const winsize size{.ws_row = 25, .ws_col = 40, .ws_xpixel = 0, .ws_ypixel = 0};
  REQUIRE(ioctl(side, TIOCSWINSZ, &size) == 0);
  {
    const StandardError replaced(side);
    log_with_live_line();
  }
  const std::string shown = read_shown(terminal, side);
  close(side);
  close(terminal);
  CHECK(shown.starts_with("\r\033[Kstep 1\r\033[K["));
  CHECK_THAT(shown, ContainsSubstring("news\r\n\r\033[Kstep 1\r\033[K" + std::string(39, 'x') +
                                      "\r\033[K"));
  CHECK(shown.find(std::string(40, 'x')) == std::string::npos);
}

TEST_CASE("a pipe gets no live line") {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  {
    const StandardError replaced(ends[1]);
    log_with_live_line();
  }
  close(ends[1]);
  const std::string shown = read_all(ends[0]);
  close(ends[0]);
  CHECK_THAT(shown, ContainsSubstring("news"));
  CHECK(shown.find("step 1") == std::string::npos);
  CHECK(shown.find('\r') == std::string::npos);
}

TEST_CASE("what is only of interest afterwards is in the file and not on standard error") {
  const std::string file =
      std::filesystem::temp_directory_path() / ("strata_log_debug_" + std::to_string(getpid()));
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  {
    const StandardError replaced(ends[1]);
    log::configure(0, 1, file);
    log::debug("long plan");
    log::info("short news");
  }
  close(ends[1]);
  const std::string shown = read_all(ends[0]);
  close(ends[0]);
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(file);
  CHECK(shown.find("long plan") == std::string::npos);
  CHECK_THAT(shown, ContainsSubstring("short news"));
  CHECK_THAT(text, ContainsSubstring("long plan") && ContainsSubstring("short news"));
}

TEST_CASE("a log on a full disk is reported once and ends nothing") {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  {
    const StandardError replaced(ends[1]);
    log::configure(0, 1, "/dev/full");
    for (int i = 0; i < 3; ++i) log::info("line {}", i);
  }
  close(ends[1]);
  const std::string shown = read_all(ends[0]);
  close(ends[0]);
  const std::string complaint = "lines of the log are lost";
  CHECK_THAT(shown, ContainsSubstring(complaint) && ContainsSubstring("line 2"));
  CHECK(shown.find(complaint) == shown.rfind(complaint));
}

TEST_CASE("rank 0 logs every step, other ranks only warnings with their rank") {
  const std::string first = logged_by(0);
  CHECK_THAT(first, ContainsSubstring("step 3 done"));
  CHECK_THAT(first, ContainsSubstring("slow disk"));
  const std::string third = logged_by(2);
  CHECK(third.find("step 3 done") == std::string::npos);
  CHECK_THAT(third, ContainsSubstring("[rank 2 of 4] slow disk"));
}

TEST_CASE("a log line shows the control characters of a name") {
  CHECK_THAT(logged_by(0), ContainsSubstring("a file named \\x1b[2J"));
}

TEST_CASE("a log file that cannot be opened is an error that names it") {
  CHECK_THROWS_AS(log::configure(0, 1, "/proc/no-such-folder/strata.log"), IoError);
  CHECK_THROWS_WITH(log::configure(0, 1, "/proc/no-such-folder/strata.log"),
                    ContainsSubstring("/proc/no-such-folder/strata.log"));
}
