// Tests that a signal in any part of a run ends it there and costs nothing: it goes on with its own
// bits. Also what a SLURM job does around a run: it is started again until the run is done. What
// must happen while something else is under way is in the program's way by e2e/faulty_disk.cpp.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "e2e/next_steps.h"
#include "e2e/saved_runs.h"
#include "support/catch.h"
#include "support/places.h"

namespace strata::test {
namespace {

/// The start of a command that has variables of e2e/faulty_disk.cpp for its environment.
std::string disturbed(const std::string& variables) {
  return "env LD_PRELOAD=" + built("libfaulty_disk.so") + " " + variables + " " + kProgram;
}

/// Returns variables by which a run waits where it first writes the state of a checkpoint. The
/// start of a run also writes where checkpoints are, to see how fast the disk is, but no state.
std::string held_in_save(const Gate& gate) {
  return "FAULT_PATH=/state/ HOLD_CALL=pwrite" + gate.known_as("HOLD_UNTIL");
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
                            (folder_ / ".") + " STRATA=" + strata_program() + " bash " +
                            scripts_folder() + "/train.sbatch " + configs_folder() +
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

constexpr long kManySteps = 1000000000;

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

TEST_CASE("a signal while a checkpoint is loaded ends the load, and the run can go on", "[long]") {
  if (skips_preload()) return;
  const Folder folder;
  REQUIRE(strata(folder, train_short(folder, "run", "")).code == 0);
  const std::string more = "--set run.steps=18 ";
  REQUIRE(strata(folder, train_short(folder, "reference", more)).code == 0);
  const std::string whole = read_file(checkpoint(folder / "run", 12) + "/manifest.json");
  // The first read of a state's values is within the load. What is read is counted in a load that
  // ends by itself as well.
  const std::string counted = "FAULT_PATH=/state/ COUNT_CALL=pread COUNT_FILE=";
  const std::string resume = train_short(folder, "run", more + "--resume auto");
  const std::string signalled =
      counted + (folder / "ended") + " SIGNAL_CALL=pread SIGNAL=" + std::to_string(SIGUSR1);
  const Outcome ended = run(folder, disturbed(signalled) + resume);
  INFO(ended.text);
  CHECK(ended.code == 75);
  CHECK_THAT(ended.text, ContainsSubstring("ended by SIGUSR1 before the first step"));
  CHECK(names_in(folder / "run/checkpoints") == std::vector<std::string>{"step-00000012"});
  CHECK(read_file(checkpoint(folder / "run", 12) + "/manifest.json") == whole);
  fs::copy(folder / "run", folder / "copy", fs::copy_options::recursive);
  const std::string copy = train_short(folder, "copy", more + "--resume auto");
  REQUIRE(run(folder, disturbed(counted + (folder / "all")) + copy).code == 0);
  CHECK(std::stol(read_file(folder / "ended")) < std::stol(read_file(folder / "all")));
  check_goes_on(folder, more, 18);
}

TEST_CASE("a signal while the last checkpoint is saved waits for it, and says so") {
  if (skips_preload()) return;
  const Folder folder;
  const Gate gate(folder);
  const std::string more = "--set checkpoint.every_steps=null ";
  Process process(folder, disturbed(held_in_save(gate)) + train_short(folder, "run", more));
  gate.wait_until_held(process);
  process.send(SIGINT);
  process.wait_for("SIGINT: the run ends when the checkpoint is saved");
  gate.open();
  const int code = process.wait();
  INFO(process.text());
  CHECK(code == 0);
  CHECK_THAT(process.text(), ContainsSubstring("checkpoint of step 12 saved"));
  REQUIRE(strata(folder, train_short(folder, "reference", "")).code == 0);
  CHECK(difference(checkpoint(folder / "reference", 12), checkpoint(folder / "run", 12)) == "");
}

TEST_CASE("another signal while the last checkpoint is saved does not end the save", "[slow]") {
  if (skips_preload()) return;
  const Folder folder;
  const Gate gate(folder);
  std::ofstream(folder / "clock").close();
  Process process(folder, "env STILL_CLOCK=" + (folder / "clock") + " " + held_in_save(gate) +
                              "LD_PRELOAD=" + built("libfaulty_disk.so") + ":" +
                              built("libfile_clock.so") + " " + kProgram +
                              train_short(folder, "run", kEndless));
  process.wait_for(folder / "run/metrics.jsonl", "\"step\":20,");
  process.send(SIGUSR1);
  process.wait_for("SIGUSR1: the run ends when the submitted steps are done");
  gate.wait_until_held(process);
  std::ofstream(folder / "clock") << "some seconds";
  process.send(SIGTERM);  // what a batch system sends when the grace time is over
  gate.open();
  check_saved(folder, process, "");
}

TEST_CASE("a run whose terminal is gone saves its last state, unless nohup started it", "[slow]") {
  const Folder folder;
  Process process(folder, kProgram + train_short(folder, "run", kEndless));
  process.wait_for(folder / "run/metrics.jsonl", "\"step\":5,");
  process.send(SIGHUP);
  check_saved(folder, process, "");
  CHECK_THAT(process.text(), ContainsSubstring("ended by SIGHUP"));

  Process kept(folder, "nohup " + kProgram + train_short(folder, "kept", kEndless));
  kept.wait_for(folder / "kept/metrics.jsonl", "\"step\":5,");
  kept.send(SIGHUP);
  kept.wait_for(folder / "kept/metrics.jsonl", "\"step\":50,");
  kept.send(SIGTERM);
  CHECK(kept.wait() == 75);
  CHECK_THAT(kept.text(), ContainsSubstring("ended by SIGTERM"));
}

TEST_CASE("a run is not said to go on before its own folder has a checkpoint") {
  if (skips_preload()) return;
  const Folder folder;
  REQUIRE(strata(folder, train_short(folder, "other", "")).code == 0);
  const std::string from_other = kEndless + " --resume " + (folder / "other");
  // While the checkpoint of the other run is read, and when it has been.
  const std::string loading =
      "FAULT_PATH=/state/ SIGNAL_CALL=pread SIGNAL=" + std::to_string(SIGTERM) +
      " COUNT_CALL=pread COUNT_FILE=" + (folder / "reads");
  const Outcome ended = run(folder, disturbed(loading) + train_short(folder, "new", from_other));
  INFO(ended.text);
  CHECK(ended.code == 128 + SIGTERM);
  CHECK_THAT(ended.text, ContainsSubstring("before the first step"));
  CHECK_FALSE(fs::exists(folder / "new/checkpoints"));

  // Its own first save is enough, however few steps that took.
  Process process(folder, kProgram + train_short(folder, "saves", from_other));
  process.wait_for(folder / "saves/metrics.jsonl", "\"event\":\"step\"");
  process.send(SIGTERM);
  CHECK(process.wait() == 75);
  CHECK(names_in(folder / "saves/checkpoints").size() == 1);
}

TEST_CASE("a second signal while the last checkpoint is saved ends the run at once", "[slow]") {
  if (skips_preload()) return;
  const Folder folder;
  const Gate gate(folder);  // nobody opens it: whoever waited for the save would wait for ever
  const std::string more = "--set checkpoint.keep=2 ";
  const std::string six = train_short(folder, "run", more + "--set run.steps=6");
  REQUIRE(strata(folder, six).code == 0);
  std::ofstream(folder / "clock").close();
  Process process(folder, "env STILL_CLOCK=" + (folder / "clock") + " " + held_in_save(gate) +
                              "LD_PRELOAD=" + built("libfaulty_disk.so") + ":" +
                              built("libfile_clock.so") + " " + kProgram +
                              train_short(folder, "run", more + kEndless + "--resume auto"));
  process.wait_for(folder / "run/metrics.jsonl", "\"step\":20,");
  process.send(SIGINT);
  process.wait_for("SIGINT: the run ends when the submitted steps are done");
  gate.wait_until_held(process);
  std::ofstream(folder / "clock") << "some seconds";
  process.send(SIGINT);
  CHECK(process.wait() == -SIGINT);
  const std::string steps = more + "--set run.steps=18 ";
  REQUIRE(strata(folder, train_short(folder, "reference", steps)).code == 0);
  check_goes_on(folder, steps, 18);
}

TEST_CASE("a signal while a checkpoint is saved beside the steps saves the last state too",
          "[slow]") {
  if (skips_preload()) return;
  const Folder folder;
  const Gate gate(folder);
  Process process(folder,
                  disturbed(held_in_save(gate)) + train_short(folder, "run",
                                                              "--set run.steps=1000000000 "
                                                              "--set checkpoint.every_steps=7"));
  gate.wait_until_held(process);
  process.wait_for(folder / "run/metrics.jsonl", "\"step\":9,");
  process.send(SIGTERM);
  process.wait_for("SIGTERM: the run ends when the submitted steps are done");
  gate.open();
  check_saved(folder, process, "");
}

TEST_CASE("a signal in a validation ends it, and saves the state before it", "[slow]") {
  if (skips_preload()) return;
  const Folder folder;
  const std::string data = tokenize_text(folder) + " --set run.eval_every=5 ";
  const std::string counted =
      "FAULT_PATH=/val.bin COUNT_CALL=pread COUNT_FILE=" + (folder / "count");
  const std::string six = "--set run.steps=6 --set checkpoint.every_steps=null ";
  const Outcome once = run(folder, disturbed(counted) + train_short(folder, "once", data + six));
  INFO(once.text);
  REQUIRE(once.code == 0);
  REQUIRE(lines_of(folder / "once", "eval").size() == 2);  // after 5 steps, and at the end
  const long reads = std::stol(read_file(folder / "count"));
  // The validation after 10 steps is the second one of this run.
  Process process(folder,
                  disturbed("FAULT_PATH=/val.bin SIGNAL_CALL=pread SIGNAL_AFTER=" +
                            std::to_string(3 * reads / 4) + " SIGNAL=" + std::to_string(SIGUSR1)) +
                      train_short(folder, "run", data + kEndless));
  process.wait_until("it ends", [&] { return process.has_ended(); });
  CHECK(lines_of(folder / "run", "eval").size() == 1);
  CHECK(metrics(folder / "run").back()["steps"] == 10);
  check_saved(folder, process, data);
}

TEST_CASE("train.sbatch has SLURM start a job again that SLURM has told to end") {
  const Folder folder;
  const std::string metrics_file = folder / "runs/tiny-7/metrics.jsonl";
  const FakeSlurm slurm(folder,
                        "[ -e " + (folder / "requeued") +
                            " ] && exec \"$@\"\n"
                            "\"$@\" &\n"
                            "while kill -0 $! && ! grep -qs '\"step\":5,' " +
                            metrics_file +
                            "; do sleep 0.02; done\n"  // the run goes on for hours
                            "kill -USR1 $!\n"
                            "wait $!",
                        "UNLIMITED");
  check_requeued(slurm, "SIGUSR1");
}

TEST_CASE("train.sbatch has SLURM start a job again whose time is over", "[slow]") {
  if (skips_preload()) return;
  const Folder folder;
  const std::string metrics_file = folder / "runs/tiny-7/metrics.jsonl";
  // An hour and the 30 s that are kept are left, and pass when five steps are done.
  const FakeSlurm slurm(folder,
                        "[ -e " + (folder / "requeued") +
                            " ] && exec \"$@\"\n"
                            "AHEAD_CLOCK=" +
                            (folder / "clock") + " LD_PRELOAD=" + built("libfile_clock.so") +
                            " \"$@\" &\n"
                            "while kill -0 $! && ! grep -qs '\"step\":5,' " +
                            metrics_file +
                            "; do sleep 0.02; done\n"
                            "truncate -s 4000 " +
                            (folder / "clock") +
                            "\n"
                            "wait $!",
                        "1:00:30");
  check_requeued(slurm, "the time limit");
}

TEST_CASE("a run whose last save failed says so by its exit code, and is not started again") {
  if (skips_preload()) return;
  const Folder folder;
  // The checkpoint of step 8 is there, and that of step 12 meets a full disk.
  const std::string last = "--set checkpoint.every_steps=null ";
  REQUIRE(strata(folder, train_short(folder, "run", last + "--set run.steps=8")).code == 0);
  const std::string full = "FAIL_CALL=pwrite FAULT_PATH=";
  const Outcome done = run(folder, disturbed(full + "step-00000012") +
                                       train_short(folder, "run", last + "--resume auto"));
  INFO(done.text);
  CHECK(done.code == 74);
  CHECK_THAT(done.text, ContainsSubstring("No space left on device") &&
                            ContainsSubstring("the last state was not saved; strata export") &&
                            ContainsSubstring("takes the one after step 8"));
  CHECK_THAT(run_next(folder, done, "", {{"MODEL", "proposed"}}),
             ContainsSubstring("strata report"));
  CHECK(fs::exists(folder / "proposed/config.json"));
  const Outcome exported = strata(folder, "export " + (folder / "run") + " " + (folder / "model"));
  INFO(exported.text);
  CHECK(exported.code == 0);
  CHECK_THAT(exported.text, ContainsSubstring("the run has done 12 steps") &&
                                ContainsSubstring("the model after step 8"));
  const Outcome named =
      strata(folder, "export " + checkpoint(folder / "run", 8) + " " + (folder / "the same"));
  CHECK_THAT(named.text, !ContainsSubstring("the run has done"));

  const Outcome weights =
      run(folder, disturbed(full + "/weights/") +
                      train_short(folder, "alone", "--set checkpoint.weights_every_steps=4"));
  INFO(weights.text);
  CHECK(weights.code == 74);
  CHECK_THAT(run_next(folder, weights, "", {{"MODEL", "of-alone"}, {"TEXT", "x"}}),
             ContainsSubstring("the last weights alone were not saved"));

  // The same where a signal ends the job: the old checkpoint is not what it had come to.
  const FakeSlurm slurm(folder,
                        "export LD_PRELOAD=" + built("libfaulty_disk.so") + " " + full +
                            "/checkpoints/\n"
                            "\"$@\" &\n"
                            "while kill -0 $! && ! grep -qs '\"step\":5,' " +
                            (folder / "runs/tiny-7/metrics.jsonl") +
                            "; do sleep 0.02; done\n"
                            "kill -USR1 $!\n"
                            "wait $!",
                        "UNLIMITED");
  const Outcome job = slurm.job(kManySteps);
  INFO(job.text);
  CHECK(job.code == 74);
  CHECK_THAT(job.text, ContainsSubstring("ended by SIGUSR1"));
  CHECK(slurm.requeued().empty());
}

TEST_CASE("a limit of time that ends a run which saves nothing has the code of what is not saved",
          "[slow]") {
  if (skips_preload()) return;
  const Folder folder;
  const FakeSlurm slurm(folder, "exec \"$@\" --set checkpoint.at_end=false", "0:01");
  const Outcome job = slurm.job(kManySteps);
  INFO(job.text);
  CHECK(job.code == 74);
  CHECK_THAT(job.text, ContainsSubstring("the time limit"));
  CHECK(slurm.requeued().empty());
}

}  // namespace strata::test
