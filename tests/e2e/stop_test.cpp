// Tests that a signal in any part of a run ends it soon and costs nothing: it goes on with its own
// bits. Also what a SLURM job does around a run: it is started again until the run is done.

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "e2e/saved_runs.h"
#include "strata/base/process.h"
#include "support/catch.h"

namespace strata::test {
namespace {

bool sanitized() {
  if (STRATA_TESTS_SANITIZED) WARN("skipped: a sanitizer must be the first library");
  return STRATA_TESTS_SANITIZED;
}

/// The start of a command whose reads or writes of files below `checkpoints` take longer.
std::string slowed(const std::string& call, int ms) {
  return "env LD_PRELOAD=" STRATA_FAULTY_DISK " FAULT_PATH=/checkpoints/ SLOW_" + call +
         "_MS=" + std::to_string(ms) + " " + kProgram;
}

/// Waits, at most a minute, until a checkpoint is being written.
void wait_for_save(const std::string& run_folder) {
  for (int i = 0; i < 6000; ++i) {
    std::error_code not_there;
    for (fs::directory_iterator at(run_folder + "/checkpoints", not_there), end; at != end;
         at.increment(not_there)) {
      if (at->path().filename().string().starts_with(".unfinished-step")) return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  FAIL("nothing is saved");
}

/// Checks that the run has ended with its last state saved, and goes on as if it had not.
void check_saved(const Folder& folder, Process& process, const std::string& more) {
  const int code = process.wait();
  INFO(process.text());
  REQUIRE(code == 75);
  const long done = metrics(folder / "run").back()["steps"];
  CHECK(fs::exists(checkpoint(folder / "run", done)));
  const std::string steps = more + " --set run.steps=" + std::to_string(done + 6) + " ";
  REQUIRE(strata(folder, train_short(folder, "reference", steps)).code == 0);
  check_goes_on(folder, steps, done + 6);
}

const std::string kOpenEnd = "--set run.steps=1000000 --set checkpoint.every_steps=null ";

// A real SLURM needs daemons and a munge key that machines for tests do not have: srun, scontrol
// and squeue are scripts here that do what train.sbatch relies on.
class FakeSlurm {
 public:
  /// `srun` is what srun does with the command "$@", and `left` what squeue says.
  FakeSlurm(const Folder& folder, const std::string& srun, const std::string& left)
      : folder_(folder) {
    fs::create_directories(folder / "bin");
    add("srun", "while [[ $1 == --* ]]; do shift; done\n" + srun);
    add("scontrol", "echo \"$@\" >> " + (folder / "requeued"));
    add("squeue", "echo " + left);
  }
  /// Runs the job's script once.
  [[nodiscard]] Outcome job(long steps) const {
    return run(folder_, "env PATH=" + (folder_ / "bin") +
                            ":$PATH SLURM_JOB_NAME=tiny SLURM_JOB_ID=7 SLURM_CPUS_PER_TASK=1"
                            " SLURM_SUBMIT_DIR=" +
                            (folder_ / ".") +
                            " STRATA=" STRATA_PROGRAM " bash " STRATA_SCRIPTS
                            "/train.sbatch " STRATA_CONFIGS
                            "/tiny-cpu.json --set data.sequence_length=16 --set schedule.rows=1"
                            " --set run.threads=1 --set checkpoint.every_steps=null"
                            " --set run.steps=" +
                            std::to_string(steps));
  }
  [[nodiscard]] std::string requeued() const { return read_file(folder_ / "requeued"); }
  [[nodiscard]] std::string run_folder() const { return folder_ / "runs/tiny-7"; }

 private:
  void add(const std::string& name, const std::string& script) const {
    const std::string file = folder_ / ("bin/" + name);
    std::ofstream(file) << "#!/bin/bash\n" << script << "\n";
    fs::permissions(file, fs::perms::owner_all);
  }
  const Folder& folder_;
};

constexpr long kManySteps = 1000000;

/// Runs a job that is ended early, and then again, which must end it.
void check_requeued(const FakeSlurm& slurm, const std::string& reason) {
  const Outcome first = slurm.job(kManySteps);
  INFO(first.text);
  REQUIRE(first.code == 75);
  CHECK_THAT(first.text, ContainsSubstring("ended by " + reason));
  CHECK(slurm.requeued() == "requeue 7\n");
  const long done = metrics(slurm.run_folder()).back()["steps"];
  const Outcome second = slurm.job(done + 5);
  INFO(second.text);
  CHECK(second.code == 0);
  CHECK_THAT(second.text, ContainsSubstring("(step " + std::to_string(done) + ")"));
  CHECK(fs::exists(checkpoint(slurm.run_folder(), done + 5)));
  CHECK(slurm.requeued() == "requeue 7\n");
}

}  // namespace

TEST_CASE("a signal while a checkpoint is loaded ends the load, and the run can go on") {
  if (sanitized()) return;
  const Folder folder;
  REQUIRE(strata(folder, train_short(folder, "run", "")).code == 0);
  const std::string more = "--set run.steps=18 ";
  REQUIRE(strata(folder, train_short(folder, "reference", more)).code == 0);
  const std::string whole = read_file(checkpoint(folder / "run", 12) + "/manifest.json");
  Process process(folder, slowed("PREAD", 30) + train_short(folder, "run", more + "--resume auto"));
  wait_for(folder / "process.txt", "resumes");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  process.send(SIGUSR1);
  const double begin_s = steady_seconds();
  const int code = process.wait();
  INFO(process.text());
  CHECK(code == 75);
  CHECK(steady_seconds() - begin_s < 5);
  CHECK_THAT(process.text(), ContainsSubstring("ended by SIGUSR1 before the first step"));
  CHECK(names_in(folder / "run/checkpoints") == std::vector<std::string>{"step-00000012"});
  CHECK(read_file(checkpoint(folder / "run", 12) + "/manifest.json") == whole);
  check_goes_on(folder, more, 18);
}

TEST_CASE("a signal while the last checkpoint is saved waits for it, and says so") {
  if (sanitized()) return;
  const Folder folder;
  const std::string more = "--set checkpoint.every_steps=null ";
  Process process(folder, slowed("PWRITE", 30) + train_short(folder, "run", more));
  wait_for_save(folder / "run");
  process.send(SIGINT);
  const int code = process.wait();
  INFO(process.text());
  CHECK(code == 0);
  CHECK_THAT(process.text(),
             ContainsSubstring("SIGINT: the run ends when the checkpoint is saved") &&
                 ContainsSubstring("checkpoint of step 12 saved"));
  REQUIRE(strata(folder, train_short(folder, "reference", "")).code == 0);
  CHECK(difference(checkpoint(folder / "reference", 12), checkpoint(folder / "run", 12)) == "");
}

TEST_CASE("a second signal while the last checkpoint is saved ends the run at once", "[slow]") {
  if (sanitized()) return;
  const Folder folder;
  const std::string more = "--set checkpoint.every_steps=6 --set checkpoint.keep=2 ";
  Process process(folder, slowed("PWRITE", 200) + train_short(folder, "run", more + kOpenEnd));
  wait_for(folder / "run/metrics.jsonl", "\"step\":20,");
  process.send(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  process.send(SIGINT);
  const double begin_s = steady_seconds();
  CHECK(process.wait() == -SIGINT);
  CHECK(steady_seconds() - begin_s < 1);
  const std::string steps = more + "--set run.steps=18 ";
  REQUIRE(strata(folder, train_short(folder, "reference", steps)).code == 0);
  check_goes_on(folder, steps, 18);
}

TEST_CASE("a signal while a checkpoint is saved beside the steps saves the last state too",
          "[slow]") {
  if (sanitized()) return;
  const Folder folder;
  Process process(
      folder,
      slowed("PWRITE", 30) +
          train_short(folder, "run", "--set run.steps=1000000 --set checkpoint.every_steps=7"));
  wait_for_save(folder / "run");
  process.send(SIGTERM);
  check_saved(folder, process, "");
}

TEST_CASE("a signal in a validation ends it, and saves the state before it", "[slow]") {
  const Folder folder;
  const std::string data = tokenize_text(folder) + " --set run.eval_every=5 ";
  Process process(folder, kProgram + train_short(folder, "run", data + kOpenEnd));
  wait_for(folder / "run/metrics.jsonl", "\"event\":\"eval\"");  // which take most of the time
  process.send(SIGUSR1);
  check_saved(folder, process, data);
}

TEST_CASE("train.sbatch has SLURM start a job again that SLURM has told to end") {
  const Folder folder;
  const std::string metrics_file = folder / "runs/tiny-7/metrics.jsonl";
  const FakeSlurm slurm(folder,
                        "[ -e " + (folder / "requeued") +
                            " ] && exec \"$@\"\n"
                            "\"$@\" &\n"
                            "until grep -qs '\"step\":5,' " +
                            metrics_file +
                            "; do sleep 0.02; done\n"
                            "kill -USR1 $!\n"
                            "wait $!",
                        "UNLIMITED");
  check_requeued(slurm, "SIGUSR1");
}

TEST_CASE("train.sbatch has SLURM start a job again whose time is over", "[slow]") {
  const Folder folder;
  check_requeued(FakeSlurm(folder, "exec \"$@\"", "0:33"), "the time limit");  // 30 s are kept
}

}  // namespace strata::test
