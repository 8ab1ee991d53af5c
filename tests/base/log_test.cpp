// Tests what ranks write to the log file, read back as text, and what a terminal shows, which is a
// pseudo terminal in the place of standard error.

#include "strata/base/log.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "strata/base/error.h"
#include "strata/base/stop_signals.h"
#include "support/catch.h"
#include "support/logger_before.h"
#include "support/scratch_folder.h"
#include "support/terminal.h"

using namespace strata;

namespace {

/// What two messages leave in the log file of one rank.
std::string logged_by(int rank) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() /
      ("strata_log_test_" + std::to_string(getpid()) + "_" + std::to_string(rank) + ".log");
  std::filesystem::remove(file);
  {
    const test::LoggerBefore before;
    log::configure(rank, 4, file.string());
    log::info("step {} done", 3);
    log::warn("slow disk");
    log::warn("a file named {}", "\x1b[2J");
    log::warn("a tensor named {}", "x\n[2026-11-28 12:00:00] [info] all is well");
  }
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(file);
  return text;
}

/// Returns what can be read until nobody holds the other side.
std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t length = 0; (length = read(file, part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(length));
  }
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
  const test::Terminal terminal(40);
  {
    const test::StandardError replaced(terminal.side());
    log_with_live_line();
  }
  terminal.end();
  const std::string shown = terminal.read_shown();
  CHECK(shown.starts_with("\r\033[Kstep 1\r\033[K["));
  CHECK_THAT(shown, ContainsSubstring("news\r\n\r\033[Kstep 1\r\033[K" + std::string(39, 'x') +
                                      "\r\033[K"));
  CHECK(shown.find(std::string(40, 'x')) == std::string::npos);
}

TEST_CASE("what is printed to the same terminal stands above the live line") {
  const test::Terminal terminal(40);
  {
    const test::StandardError replaced(terminal.side());
    log::configure(0, 1, "");
    log::live("step 1");
    log::print_above([] { REQUIRE(write(STDERR_FILENO, "a result\n", 9) == 9); });
    log::live("");
  }
  terminal.end();
  CHECK(terminal.read_shown() == "\r\033[Kstep 1\r\033[Ka result\r\n\r\033[Kstep 1\r\033[K");
}

TEST_CASE("a terminal shows the live line of rank 0 alone") {
  const test::Terminal terminal(40);
  {
    const test::StandardError replaced(terminal.side());
    log::configure(1, 2, "");
    CHECK_FALSE(log::shows_live());
    log::live("step 1");
    log::configure(0, 2, "");
    CHECK(log::shows_live());
  }
  terminal.end();
  CHECK(terminal.read_shown().empty());
}

TEST_CASE("a pipe gets no live line") {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  {
    const test::StandardError replaced(ends[1]);
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
    const test::StandardError replaced(ends[1]);
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
  const ScratchFolder scratch;
  const StopSignals signals;  // a limit of file sizes is an error and no signal
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  {
    const test::StandardError replaced(ends[1]);
    log::configure(0, 1, scratch.file("train.log"));
    rlimit full = before;
    full.rlim_cur = 0;
    REQUIRE(setrlimit(RLIMIT_FSIZE, &full) == 0);
    for (int i = 0; i < 3; ++i) log::info("line {}", i);
  }
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
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

TEST_CASE("a log is written neither through a link nor to a device") {
  const ScratchFolder scratch;
  const std::string precious = scratch.write("precious", "text");
  std::filesystem::create_symlink(precious, scratch.file("train.log"));
  CHECK_THROWS_WITH(log::configure(0, 1, scratch.file("train.log")),
                    ContainsSubstring("train.log: is a link"));
  CHECK_THROWS_WITH(log::configure(0, 1, "/dev/null"), ContainsSubstring("but a device"));
  CHECK(std::filesystem::file_size(precious) == 4);
}

TEST_CASE("a name makes no line of the log") {
  CHECK_THAT(logged_by(0),
             ContainsSubstring("named x\n  [2026-11-28 12:00:00] [info] all is well"));
}

TEST_CASE("a live line shows what a name would have the terminal do") {
  const test::Terminal terminal(80);
  {
    const test::StandardError replaced(terminal.side());
    log::configure(0, 1, "");
    log::live("reading a\x1b[2J\nb");
    log::live("");
  }
  terminal.end();
  CHECK(terminal.read_shown() == "\r\033[Kreading a\\x1b[2J\\nb\r\033[K");
}

TEST_CASE("a log file that cannot be opened is an error that names it") {
  CHECK_THROWS_AS(log::configure(0, 1, "/proc/no-such-folder/strata.log"), IoError);
  CHECK_THROWS_WITH(log::configure(0, 1, "/proc/no-such-folder/strata.log"),
                    ContainsSubstring("/proc/no-such-folder/strata.log"));
}
