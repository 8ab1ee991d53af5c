// Tests that a start which does not find the checkpoints of a run, or cannot read them, is no first
// start: it ends with exit code 2 and what to do, and what the run has left stays as it is.

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include "e2e/model_files.h"
#include "e2e/saved_runs.h"
#include "support/catch.h"
#include "support/places.h"

namespace strata::test {

namespace {

const std::string kKeep = "--set checkpoint.keep=2 ";

/// A run of 8 steps that is to go on to 12, with what a start must not change of it.
class LeftRun {
 public:
  LeftRun() {
    const Outcome left = strata(folder_, train_short(folder_, "run", kKeep + "--set run.steps=8"));
    INFO(left.text);
    REQUIRE(left.code == 0);
    fs::create_directories(folder_ / "disk");
    metrics_ = read_file(run() + "/metrics.jsonl");
  }

  [[nodiscard]] const Folder& folder() const { return folder_; }
  [[nodiscard]] std::string run() const { return folder_ / "run"; }
  [[nodiscard]] std::string checkpoints() const { return run() + "/checkpoints"; }
  /// Where checkpoints may be moved to.
  [[nodiscard]] std::string disk() const { return folder_ / "disk/checkpoints"; }

  /// Starts the run again, with these variables of the environment.
  [[nodiscard]] Outcome go_on(const std::string& environment = "") const {
    const std::string train = train_short(folder_, "run", kKeep + "--resume auto");
    return test::run(folder_, kUnlessItHangs + "env " + environment + " " + kProgram + train);
  }
  /// Checks that a start is refused with all of these texts, and changes nothing.
  void check_refused(const std::vector<std::string>& texts,
                     const std::string& environment = "") const {
    const auto kept = [&] { return fs::exists(disk()) ? names_in(disk()) : saved(); };
    const std::vector<std::string> before = kept();
    const Outcome refused = go_on(environment);
    INFO(environment << "\n" << refused.text);
    CHECK(refused.code == 2);
    for (const std::string& text : texts) CHECK_THAT(refused.text, ContainsSubstring(text));
    CHECK(kept() == before);
    CHECK(read_file(run() + "/metrics.jsonl") == metrics_);
  }
  /// Checks that the run goes on where it was, and ends as one that was never interrupted.
  void check_goes_on() const {
    REQUIRE(strata(folder_, train_short(folder_, "reference", kKeep)).code == 0);
    const Outcome done = go_on();
    INFO(done.text);
    REQUIRE(done.code == 0);
    CHECK_THAT(done.text, ContainsSubstring("(step 8)"));
    CHECK(difference(checkpoint(folder_ / "reference", 12), checkpoint(run(), 12)) == "");
    CHECK(read_file(run() + "/metrics.jsonl").starts_with(metrics_));
  }

 private:
  [[nodiscard]] std::vector<std::string> saved() const { return names_in(checkpoints()); }

  Folder folder_;
  std::string metrics_;
};

/// Returns variables by which a call on a file fails, with an error of the system's.
std::string fault(const std::string& file, const std::string& call, int error) {
  return "LD_PRELOAD=" + built("libfaulty_disk.so") + " FAULT_PATH=" + file + " FAIL_CALL=" + call +
         " FAIL_ERROR=" + std::to_string(error);
}

}  // namespace

TEST_CASE("checkpoints that are moved to another disk are found there by a link") {
  const LeftRun left;
  fs::rename(left.checkpoints(), left.disk());
  fs::create_directory_symlink(left.disk(), left.checkpoints());
  left.check_goes_on();
  CHECK(names_in(left.disk()) == std::vector<std::string>{"step-00000008", "step-00000012"});
  CHECK(fs::is_symlink(left.checkpoints()));
  const Outcome shown = strata(left.folder(), "inspect " + left.run());
  CHECK(shown.code == 0);
  CHECK_THAT(shown.text, ContainsSubstring("step-00000012"));
}

TEST_CASE("a run whose checkpoints are not where they were is refused until they are back") {
  const LeftRun left;
  const std::string there = left.checkpoints();
  fs::rename(there, left.disk());
  left.check_refused({"there is no checkpoint in " + there, "tells of a checkpoint of step 8",
                      "--resume DIR", "--output", "--overwrite"});
  fs::create_directories(there);  // where a disk is mounted else
  left.check_refused({"there is no checkpoint in " + there});
  fs::remove(there);
  for (const std::string& target :
       {left.folder() / "unmounted", std::string("/dev/null"), std::string("checkpoints")}) {
    fs::create_symlink(target, there);
    left.check_refused({there, "mount the disk", "remove or rename"});
    fs::remove(there);
  }
  std::ofstream(there) << "a file";
  left.check_refused({there, "is a file"});
  fs::remove(there);
  fs::rename(left.disk(), there);
  left.check_goes_on();
}

TEST_CASE("a run none of whose checkpoints is whole is refused, and loses none") {
  const LeftRun left;
  for (const long step : {4, 8}) {
    fs::resize_file(checkpoint(left.run(), step) + "/state/head.safetensors", 100);
  }
  left.check_refused(
      {"passed over: ", "none of the checkpoints in ", "--resume DIR", "--output", "--overwrite"});
  const Outcome replaced =
      strata(left.folder(), train_short(left.folder(), "run", kKeep + "--overwrite"));
  CHECK(replaced.code == 0);
}

TEST_CASE("a run the bytes of whose last whole checkpoint changed is refused, and loses none",
          "[long]") {
  const LeftRun left;
  for (const long step : {4, 8}) {
    std::fstream file(checkpoint(left.run(), step) + "/state/layers.2.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5000);
    file.put('\x5a');
  }
  left.check_refused({"passed over: " + checkpoint(left.run(), 8),
                      "passed over: " + checkpoint(left.run(), 4), "none of the checkpoints in "});
}

TEST_CASE("a checkpoint that cannot be read is not passed over, whatever the system says of it",
          "[long]") {
  if (skips_preload()) return;
  const LeftRun left;
  for (const std::string file :
       {"step-00000008/manifest.json", "/manifest.json", "step-00000008/state/head.safetensors",
        "step-00000008/model/config.json"}) {
    for (const std::string call : {"open", "pread"}) {
      for (const int error : {EACCES, EIO, ESTALE, EMFILE, ENOENT}) {
        if (call == "pread" && error != EIO && error != ESTALE) continue;  // is not said of reads
        left.check_refused({"step-00000008", file, std::generic_category().message(error)},
                           fault(file, call, error));
      }
    }
  }
  left.check_goes_on();
}

TEST_CASE("checkpoints and metrics that cannot be read are refused by their name, and not lost") {
  if (skips_preload()) return;
  const LeftRun left;
  const std::string newest = "step-00000008/manifest.json";
  // Nor is an older one taken for the newest by those that read a run.
  for (const std::string& command :
       {"inspect " + left.run(), "export " + left.run() + " " + (left.folder() / "model"),
        "generate " + left.run() + " --prompt x"}) {
    const Outcome refused =
        run(left.folder(), "env " + fault(newest, "open", EACCES) + " " + kProgram + command);
    INFO(command << "\n" << refused.text);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.text, ContainsSubstring(newest) && ContainsSubstring("Permission denied"));
  }
  left.check_refused({newest, "Permission denied"}, fault(newest, "open", EACCES));
  left.check_refused({"metrics.jsonl", "cannot be read", "Input/output error"},
                     fault("/metrics.jsonl", "pread", EIO));
}

TEST_CASE("a run that was killed before its first checkpoint begins anew, and keeps its lines") {
  const Folder folder;
  const std::string metrics_file = folder / "run/metrics.jsonl";
  for (const std::string old : {"", ".old", ".old-2"}) {
    Process process(folder, kProgram + train_short(folder, "run", kEndless + "--resume auto"));
    process.wait_until("lines make way", [&] { return fs::exists(metrics_file + old); });
    process.wait_for(metrics_file, "\"step\":5,");
    process.send(SIGKILL);
    process.wait();
  }
  const std::string before = read_file(metrics_file);
  const Outcome done = strata(folder, train_short(folder, "run", "--resume auto"));
  INFO(done.text);
  REQUIRE(done.code == 0);
  CHECK(losses(folder / "run").size() == 12);
  CHECK(read_file(metrics_file + ".old-3") == before);
  REQUIRE(strata(folder, train_short(folder, "run", "--overwrite")).code == 0);
  for (const std::string& name : names_in(folder / "run"))
    CHECK(!name.starts_with("metrics.jsonl.old"));
}

}  // namespace strata::test
