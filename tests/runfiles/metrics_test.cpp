// Tests the metrics file, read back with a JSON parser.

#include "strata/runfiles/metrics.h"
#include "strata/base/text.h"
#include "strata/base/version.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/stop_signals.h"
#include "support/catch.h"
#include "support/json.h"

namespace {

using nlohmann::json;
using strata::Metric;
using strata::MetricsLog;
using strata::StepMetrics;

/// A path in the temporary folder; what is there is removed at the end.
struct TemporaryFile {
  TemporaryFile()
      : path(std::filesystem::temp_directory_path() /
             ("strata_metrics_" + std::to_string(getpid()) + ".jsonl")) {
    std::filesystem::remove(path);  // a process of that number may have been killed
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] std::vector<json> lines() const {
    std::ifstream in(path);
    std::vector<json> parsed;
    for (std::string line; std::getline(in, line);)
      parsed.push_back(strata::parse_json<json>(line));
    return parsed;
  }
  std::filesystem::path path;
};

StepMetrics sample() {
  return {.step = 12,
          .loss = 3.4123,
          .grad_norm = 1.204,
          .lr = 3e-4,
          .tokens = 24690,
          .step_s = 2.0,
          .mfu = 0.4119};
}

}  // namespace

TEST_CASE("every event is one line that is in the file when the call returns") {
  const TemporaryFile file;
  MetricsLog log(file.path);
  const std::array<Metric, 3> start{
      {{"model", std::string("llama")}, {"parameters", std::int64_t{6738415616}}, {"peak", {}}}};
  log.start(start);
  REQUIRE(file.lines().size() == 1);
  json expected =
      strata::parse_json<json>(R"({"event": "start", "model": "llama", "parameters": 6738415616,
                                  "peak": null})");
  expected["version"] = strata::build_info().version;
  expected["commit"] = strata::build_info().commit;
  CHECK(file.lines()[0] == expected);
  const std::array<Metric, 1> extras{{{"clipped", true}}};
  log.step(sample(), extras);
  REQUIRE(file.lines().size() == 2);
  CHECK(file.lines()[1] == strata::parse_json<json>(R"({"event": "step", "step": 12, "loss": 3.4123,
    "grad_norm": 1.204, "lr": 3e-4, "tokens": 24690, "step_s": 2.0, "tokens_per_s": 12345.0,
    "mfu": 0.4119, "clipped": true})"));
  log.eval(12, 2.5);
  log.end({});
  REQUIRE(file.lines().size() == 4);
  CHECK(file.lines()[2] ==
        strata::parse_json<json>(R"({"event": "eval", "step": 12, "val_loss": 2.5})"));
  CHECK(file.lines()[3] == strata::parse_json<json>(R"({"event": "end", "lost_lines": 0})"));
}

TEST_CASE("numbers survive the metrics file bit for bit") {
  const TemporaryFile file;
  MetricsLog log(file.path);
  StepMetrics step = sample();
  step.loss = 0.1 + 0.2;
  step.grad_norm = std::numeric_limits<double>::denorm_min();
  log.step(step);
  CHECK(file.lines()[0]["loss"].get<double>() == step.loss);
  CHECK(file.lines()[0]["grad_norm"].get<double>() == step.grad_norm);
}

TEST_CASE("numbers that JSON does not have are null and named") {
  const TemporaryFile file;
  MetricsLog log(file.path);
  StepMetrics step = sample();
  step.loss = std::numeric_limits<double>::quiet_NaN();
  step.grad_norm = -std::numeric_limits<double>::infinity();
  step.mfu.reset();
  log.step(step);
  const json line = file.lines()[0];
  CHECK(line["loss"].is_null());
  CHECK(line["grad_norm"].is_null());
  CHECK(line["mfu"].is_null());
  CHECK(line["nonfinite"] == strata::parse_json<json>(R"({"loss": "nan", "grad_norm": "-inf"})"));
  log.eval(1, std::numeric_limits<double>::infinity());
  CHECK(file.lines()[1]["nonfinite"]["val_loss"] == "inf");
}

TEST_CASE("what rounding to e4m3 loses is a list by layer for each operand that was rounded") {
  const TemporaryFile file;
  MetricsLog log(file.path);
  strata::Fp8StepCounts counted{.step = 11, .counts = std::vector<double>(2 * 4 * 6 * 4)};
  const auto set = [&](std::size_t layer, std::size_t linear, std::size_t operand,
                       const std::array<double, 4>& counts) {
    std::copy(counts.begin(), counts.end(),
              counted.counts.begin() +
                  static_cast<std::ptrdiff_t>(4 * (6 * (4 * layer + linear) + operand)));
  };
  set(0, 0, 1, {3.25, 3000, 2999, 1});
  set(1, 0, 1, {1e-3, 8, 4, 3});
  set(1, 3, 3, {std::numeric_limits<double>::infinity(), 8, 8, 0});
  log.fp8(counted);
  CHECK(file.lines()[0] == strata::parse_json<json>(R"({"event": "fp8", "step": 12,
    "qkv": {"w": {"amax": [3.25, 0.001], "flushed": [0.0003333, 0.5],
                  "subnormal": [0.0003333, 0.375]}},
    "down": {"dy": {"amax": [null, null], "flushed": [null, 0.0], "subnormal": [null, 0.0]}}})"));
}

TEST_CASE("the loss of a step without targets is null, and no number that is not finite") {
  const TemporaryFile file;
  MetricsLog log(file.path);
  StepMetrics step = sample();
  step.loss.reset();
  log.step(step);
  const json line = file.lines()[0];
  CHECK(line.at("loss").is_null());
  CHECK(!line.contains("nonfinite"));
}

TEST_CASE("a metrics file that cannot be made is an error") {
  CHECK_THROWS_AS(MetricsLog("no/such/folder/metrics.jsonl"), strata::IoError);
}

TEST_CASE("metrics are written neither through a link nor to a device") {
  const TemporaryFile link;
  const std::string target = link.path.string() + ".target";
  std::ofstream(target) << "precious\n";
  std::filesystem::create_symlink(target, link.path);
  for (const MetricsLog::OldLines old :
       {MetricsLog::OldLines::kRemove, MetricsLog::OldLines::kKeep}) {
    CHECK_THROWS_WITH(MetricsLog(link.path, old), ContainsSubstring("is a link"));
    CHECK_THROWS_WITH(MetricsLog("/dev/null", old), ContainsSubstring("but a device"));
  }
  CHECK(std::filesystem::file_size(target) == 9);
  std::filesystem::remove(target);
}

TEST_CASE("lines that a full disk took are counted at the end, and none is torn") {
  const strata::StopSignals signals;  // a limit of file sizes is an error and no signal
  const TemporaryFile file;
  MetricsLog log(file.path);
  log.step(sample());
  const auto first_bytes = std::filesystem::file_size(file.path);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit full = before;
  full.rlim_cur = first_bytes + 20;  // room for the begin of a line
  REQUIRE(setrlimit(RLIMIT_FSIZE, &full) == 0);
  log.step(sample());
  log.eval(12, 2.5);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(std::filesystem::file_size(file.path) == first_bytes);
  log.end({});
  REQUIRE(file.lines().size() == 2);
  CHECK(file.lines()[1] == strata::parse_json<json>(R"({"event": "end", "lost_lines": 2})"));
}

TEST_CASE("how far a run came is told by the last whole line about a step") {
  const TemporaryFile file;
  CHECK_FALSE(strata::last_step_in(file.path));
  std::ofstream out(file.path);
  out << R"({"event":"start","step":7})" << std::endl;
  CHECK_FALSE(strata::last_step_in(file.path));
  {
    MetricsLog log(file.path, MetricsLog::OldLines::kKeep);
    StepMetrics step = sample();
    for (const std::int64_t done : {99, 3, 4}) {  // it went back meanwhile
      step.step = done;
      log.step(step);
    }
    log.eval(5, 1.0);
    for (int i = 0; i < 1000; ++i) log.checkpoint({});
  }
  CHECK(strata::last_step_in(file.path) == 4);
  out.close();
  std::ofstream(file.path, std::ios::app) << R"({"event":"step","step":12)";  // of 123
  CHECK_FALSE(strata::last_step_in(file.path) == 12);
}

TEST_CASE("counts and durations are readable") {
  CHECK(strata::format_count(0) == "0");
  CHECK(strata::format_count(999) == "999");
  CHECK(strata::format_count(1000) == "1,000");
  CHECK(strata::format_count(-1234567) == "-1,234,567");
  CHECK(strata::format_duration(0.4) == "0s");
  CHECK(strata::format_duration(59.6) == "1m00s");
  CHECK(strata::format_duration(192) == "3m12s");
  CHECK(strata::format_duration(7500) == "2h05m");
  CHECK(strata::format_duration(3 * 86400 + 4 * 3600) == "3d04h");
}
