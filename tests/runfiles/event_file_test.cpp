// Tests event files: the checksum by the vectors of RFC 3720, and everything else by a reader that
// shares no code with the writer.

#include "strata/runfiles/event_file.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/event_records.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::read_events;
using test::ReadEvent;

/// Returns the event files of a folder by name.
std::vector<fs::path> event_files(const ScratchFolder& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder.file(""))) {
    CHECK(is_event_file_name(entry.path().filename().string()));
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

std::vector<ReadEvent> events_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return read_events(std::string(std::istreambuf_iterator<char>(in), {}));
}

StepMetrics step_of(std::int64_t step) {
  return {.step = step,
          .loss = 3.5,
          .grad_norm = 1.25,
          .lr = 3e-4,
          .tokens = 4096,
          .step_s = 2,
          .mfu = 0.5};
}

TEST_CASE("checksums are those of RFC 3720") {
  CHECK(crc32c("123456789") == 0xe3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  CHECK(crc32c("") == 0);
}

TEST_CASE("an event file holds the numbers of steps and validations") {
  const ScratchFolder folder;
  {
    EventFile events(folder.file(""), {});
    events.step(step_of(1));
    StepMetrics bad = step_of(300);
    bad.loss = std::numeric_limits<double>::quiet_NaN();
    bad.mfu.reset();
    events.step(bad);
    StepMetrics without = step_of(301);
    without.loss.reset();
    events.step(without);
    events.eval(301, 2.5);
    CHECK(events.lost_records() == 0);
  }
  const std::vector<fs::path> files = event_files(folder);
  REQUIRE(files.size() == 1);
  const std::vector<ReadEvent> events = events_of(files[0]);
  REQUIRE(events.size() == 5);
  CHECK(events[0].file_version == "brain.Event:2");
  CHECK(events[0].wall_time_s > 1.7e9);
  CHECK(events[1].step == 1);
  CHECK(events[1].scalars == std::map<std::string, float>{{"loss", 3.5F},
                                                          {"lr", 3e-4F},
                                                          {"grad_norm", 1.25F},
                                                          {"tokens_per_s", 2048.F},
                                                          {"mfu", 0.5F}});
  CHECK(events[2].step == 300);
  CHECK(std::isnan(events[2].scalars.at("loss")));
  CHECK(events[2].scalars.count("mfu") == 0);
  CHECK(events[3].step == 301);
  CHECK(events[3].scalars.count("loss") == 0);  // it has no target
  CHECK(events[3].scalars.at("grad_norm") == 1.25F);
  CHECK(events[4].scalars == std::map<std::string, float>{{"val_loss", 2.5F}});
}

TEST_CASE("a run that goes on opens a file of its own, which replaces what is done again") {
  const ScratchFolder folder;
  EventFile(folder.file(""), {}).step(step_of(5));
  EventFile(folder.file(""), 4).step(step_of(5));
  const std::vector<fs::path> files = event_files(folder);
  REQUIRE(files.size() == 2);
  CHECK(events_of(files[0]).size() == 2);
  const std::vector<ReadEvent> events = events_of(files[1]);
  REQUIRE(events.size() == 3);
  CHECK(events[1].restarts);
  CHECK(events[1].step == 5);
  CHECK(events[2].step == 5);
}

TEST_CASE("a file that takes no more loses whole records, and the rest stays readable") {
  const ScratchFolder folder;
  struct rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  void (*const handler)(int) = std::signal(SIGXFSZ, SIG_IGN);
  EventFile events(folder.file(""), {});
  struct rlimit small = before;
  small.rlim_cur = 500;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  for (int i = 1; i <= 20; ++i) events.step(step_of(i));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(events.lost_records() > 10);
  events.step(step_of(21));
  const std::vector<ReadEvent> read = events_of(event_files(folder)[0]);
  CHECK(static_cast<std::int64_t>(read.size()) == 22 - events.lost_records());
  CHECK(read.back().step == 21);
}

TEST_CASE("a folder that takes no file is an error that names it") {
  const ScratchFolder folder;
  CHECK_THROWS_AS(EventFile(folder.file("nowhere"), {}), IoError);
}

TEST_CASE("names of event files of others are not taken for strata's") {
  CHECK(is_event_file_name("events.out.tfevents.1764021600.host.0.strata"));
  CHECK_FALSE(is_event_file_name("events.out.tfevents.1764021600.host.123.0"));
  CHECK_FALSE(is_event_file_name("metrics.jsonl"));
}

}  // namespace
}  // namespace strata
