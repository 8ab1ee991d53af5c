// Tests what ranks write to the log file, read back as text.

#include "strata/base/log.h"

#include <unistd.h>

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
  spdlog::default_logger()->flush();
  spdlog::set_default_logger(before);
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(file);
  return text;
}

}  // namespace

TEST_CASE("rank 0 logs every step, other ranks only warnings with their rank") {
  const std::string first = logged_by(0);
  CHECK_THAT(first, ContainsSubstring("step 3 done"));
  CHECK_THAT(first, ContainsSubstring("slow disk"));
  const std::string third = logged_by(2);
  CHECK(third.find("step 3 done") == std::string::npos);
  CHECK_THAT(third, ContainsSubstring("[rank 2 of 4] slow disk"));
}

TEST_CASE("a log file that cannot be opened is an error that names it") {
  CHECK_THROWS_AS(log::configure(0, 1, "/proc/no-such-folder/strata.log"), IoError);
  CHECK_THROWS_WITH(log::configure(0, 1, "/proc/no-such-folder/strata.log"),
                    ContainsSubstring("/proc/no-such-folder/strata.log"));
}
