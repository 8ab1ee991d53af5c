// Tests that a job of which one rank is stopped, killed or fails ends, and says which rank it was.
// The jobs would go on for days: that they end is the watchdog's or the launcher's doing, and what
// they say tells whose.

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "e2e/saved_runs.h"
#include "support/catch.h"
#include "support/places.h"

namespace strata::test {

#ifdef STRATA_MPIEXEC
namespace {

/// Returns the process that is rank `rank` of the run in this folder, as /proc knows it.
std::optional<pid_t> process_of(const Folder& folder, int rank) {
  const std::string variable = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank);
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string pid = entry.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string arguments = read_file(entry.path() / "cmdline");
    const std::string environment = '\0' + read_file(entry.path() / "environ");
    const std::string wanted = '\0' + variable + '\0';
    if (arguments.starts_with(strata_program()) &&
        arguments.find(folder / "run") != std::string::npos &&
        environment.find(wanted) != std::string::npos) {
      return std::stoi(pid);
    }
  }
  return std::nullopt;
}

/// Ranks that train for ever, unless `fault` of their environment is in the way.
class Job {
 public:
  Job(const Folder& folder, int ranks, const std::string& more, const std::string& fault = "")
      : folder_(folder),
        process_(folder, kMpiExec + "-n " + std::to_string(ranks) + " env " + fault + " " +
                             kProgram + train_short(folder, "run", kEndless + more)) {
    process_.wait_for(folder / "run/metrics.jsonl", "\"step\":1,");
  }
  void send(int signal, int rank) const {
    const std::optional<pid_t> pid = process_of(folder_, rank);
    REQUIRE(pid);
    REQUIRE(::kill(*pid, signal) == 0);
  }
  /// Waits until the job has ended; returns its exit code.
  int end() { return process_.wait(); }
  [[nodiscard]] const Process& process() const { return process_; }
  [[nodiscard]] std::string text() const { return process_.text(); }

 private:
  const Folder& folder_;
  Process process_;
};

/// Watches nothing by silence: what ends a job is something else.
const std::string kPatient = " --set run.watchdog_s=100000 ";

}  // namespace

TEST_CASE("a job of which a rank is stopped ends by silence, and the others name the rank",
          "[slow][hang]") {
  // Others are not taken for silent on a machine that is busy for less than this. The jobs wait for
  // it side by side.
  constexpr int kLimitS = 20;
  constexpr std::array kRanks{2, 4};
  const std::array<Folder, kRanks.size()> folders;
  std::vector<std::unique_ptr<Job>> jobs;
  for (std::size_t i = 0; i < kRanks.size(); ++i) {
    jobs.push_back(std::make_unique<Job>(folders[i], kRanks[i],
                                         "--set run.watchdog_s=" + std::to_string(kLimitS)));
    jobs[i]->send(SIGSTOP, kRanks[i] - 1);
  }
  for (std::size_t i = 0; i < kRanks.size(); ++i) {
    const int code = jobs[i]->end();
    const std::string text = jobs[i]->text();
    INFO(text);
    CHECK(code == 5);
    const int stopped = kRanks[i] - 1;
    const std::string silent = "exit code 5: rank " + std::to_string(stopped) + " is silent";
    for (int rank = 0; rank < stopped; ++rank) {
      CHECK_THAT(text, ContainsSubstring("this rank, " + std::to_string(rank) + ": "));
    }
    CHECK_THAT(text, ContainsSubstring(silent) && ContainsSubstring("lane runs"));
    CHECK_THAT(read_file(folders[i] / "run/train.log"), ContainsSubstring(silent));
    const std::string said = "not heard of for ";
    CHECK(std::stod(text.substr(text.find(said) + said.size())) >= kLimitS);
  }
}

TEST_CASE("a job of which a rank is killed ends, not by silence", "[slow][hang]") {
  for (const int ranks : {2, 4}) {
    const Folder folder;
    Job job(folder, ranks, kPatient);
    job.send(SIGKILL, 1);
    const int code = job.end();
    INFO(job.text());
    CHECK(code != 0);
    CHECK(code != kHangCode);
    CHECK_THAT(job.text(), ContainsSubstring("rank 1"));
  }
}

TEST_CASE("a job of which a rank throws ends with the rank's error, not by silence",
          "[slow][hang]") {
  if (skips_preload()) return;
  for (const int ranks : {2, 4}) {
    const Folder folder;
    const std::string data = tokenize_text(folder);
    Job job(folder, ranks, kPatient + data,
            "LD_PRELOAD=" + built("libfaulty_disk.so") +
                " FAULT_RANK=1 FAULT_PATH=/train.bin FAIL_CALL=pread FAIL_AFTER=120");
    const int code = job.end();
    INFO(job.text());
    CHECK(code == 2);
    CHECK_THAT(job.text(), ContainsSubstring("[rank 1 of " + std::to_string(ranks) + "] ") &&
                               ContainsSubstring("train.bin"));
  }
}

TEST_CASE("a checkpoint that one rank alone is asked for as the run ends is saved by all",
          "[slow][hang]") {
  if (skips_preload()) return;
  const Folder folder;
  const Gate gate(folder);
  Job job(folder, 2,
          kPatient + "--set checkpoint.at_end=false --set checkpoint.every_steps=1000000000",
          "LD_PRELOAD=" + built("libfaulty_disk.so") +
              " FAULT_RANK=0 FAULT_PATH=/layers.0.safetensors HOLD_CALL=pwrite" +
              gate.known_as("HOLD_UNTIL"));
  job.send(SIGUSR2, 0);
  gate.wait_until_held(job.process());
  job.send(SIGUSR2, 1);  // what it asks for has to wait for that save, and the other does not know
  const std::size_t steps = losses(folder / "run").size();
  constexpr std::size_t kUntilItHasSeen = 20;
  job.process().wait_until("there are more steps", [&] {
    return losses(folder / "run").size() >= steps + kUntilItHasSeen;
  });
  job.send(SIGUSR1, 0);
  job.process().wait_for("the run ends when the submitted steps are done");
  gate.open();
  const int code = job.end();
  INFO(job.text());
  CHECK(code == 75);
  CHECK(lines_of(folder / "run", "checkpoint").size() == 2);
}

TEST_CASE("a signal that reaches a rank when the run is over leaves it its exit code",
          "[slow][hang]") {
  if (skips_preload()) return;
  for (const int signal : {SIGUSR1, SIGTERM, SIGUSR2}) {
    const Folder folder;
    const Gate gate(folder);
    // mpirun tells the others to end when the first one has ended, and kills them a moment later:
    // so no rank has ended for it until all have.
    const std::string wrapper = folder / "wrapper.sh";
    std::ofstream(wrapper) << "trap : TERM\n"
                              "\"$@\"\n"
                              "code=$?\n"
                              "echo \"rank $OMPI_COMM_WORLD_RANK ends with $code\"\n"
                              "touch " +
                                  (folder / "ended") +
                                  "$OMPI_COMM_WORLD_RANK\n"
                                  "until [ -e " +
                                  (folder / "ended0") + " ] && [ -e " + (folder / "ended1") +
                                  " ]; do sleep 0.02; done\n"
                                  "exit $code\n";
    Job job(folder, 2, kPatient,
            "LD_PRELOAD=" + built("liblate_end.so") + " LATE_RANK=1" + gate.known_as("LATE_UNTIL") +
                "sh " + wrapper);
    job.send(SIGUSR1, 0);
    gate.wait_until_held(job.process());
    job.process().wait_for("rank 0 ends with 75");
    job.send(signal, 1);
    gate.open();
    const int code = job.end();
    INFO(job.text());
    CHECK(code == 75);
    CHECK_THAT(job.text(), ContainsSubstring("rank 1 ends with 75"));
  }
}
#endif

}  // namespace strata::test
