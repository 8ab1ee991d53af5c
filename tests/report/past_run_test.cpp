// Tests what metrics tell a start that finds no checkpoint of the run that wrote them.

#include "strata/report/past_run.h"

#include <fstream>
#include <string>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata::test {
namespace {

const std::string kStart = R"({"event":"start","version":"0"})"
                           "\n";
const std::string kStep = R"({"event":"step","step":1,"loss":2.5})"
                          "\n";
const std::string kRollback = R"({"event":"rollback","step":3,"what":"nan","samples":9})"
                              "\n";

std::string save(bool saved, bool weights_alone) {
  const auto text = [](bool value) { return std::string(value ? "true" : "false"); };
  return R"({"event":"checkpoint","step":4,"weights_alone":)" + text(weights_alone) +
         R"(,"saved":)" + text(saved) + "}\n";
}

std::string resume(const std::string& checkpoint) {
  return R"({"event":"resume","step":4)" +
         (checkpoint.empty() ? "" : R"(,"checkpoint":")" + checkpoint + '"') + "}\n";
}

PastRun past(const std::string& lines) {
  const ScratchFolder scratch;
  const std::string file = scratch.file("metrics.jsonl");
  std::ofstream(file) << lines;
  return read_past_run(file);
}

}  // namespace

TEST_CASE("metrics tell of the checkpoint that a run had last") {
  const std::string saved = "a checkpoint of step 4";
  CHECK(past("").checkpoint.empty());
  CHECK(past(kStart + kStep).checkpoint.empty());
  CHECK(past(kStart + kStep + save(true, false)).checkpoint == saved);
  CHECK(past(kStart + save(true, true)).checkpoint.empty());
  CHECK(past(kStart + save(false, false)).checkpoint.empty());
  CHECK(past(kStart + save(true, false) + save(false, false)).checkpoint == saved);
  CHECK(past(resume("/other/step-00000007") + kStep).checkpoint == "/other/step-00000007");
  CHECK(past(resume("/other") + kRollback).checkpoint.empty());
  CHECK(past(save(true, false) + kRollback + resume("")).checkpoint.empty());
  CHECK(past(save(true, false) + kRollback + resume("/run/step-2")).checkpoint == "/run/step-2");
}

TEST_CASE("metrics have lines to keep where there are steps, or what nobody understands") {
  CHECK_FALSE(past("").has_lines);
  CHECK_FALSE(past(kStart).has_lines);
  CHECK(past(kStart + kStep).has_lines);
  CHECK(past("somebody's notes\n").has_lines);
  CHECK_THROWS_AS(read_past_run("/no/such/metrics.jsonl"), IoError);
}

}  // namespace strata::test
