// Tests that a job of which one rank is stopped, killed or fails ends soon, and says which rank it
// was.

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "e2e/saved_runs.h"
#include "strata/base/process.h"
#include "support/catch.h"

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
    if (arguments.starts_with(STRATA_PROGRAM) &&
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
        process_(folder, "timeout 60 " STRATA_MPIEXEC " -n " + std::to_string(ranks) + " env " +
                             fault + " " + kProgram +
                             train_short(folder, "run",
                                         "--set run.steps=1000000"
                                         " --set checkpoint.every_steps=null " +
                                             more)) {
    wait_for(folder / "run/metrics.jsonl", "\"step\":1,");
  }
  void send(int signal, int rank) const {
    const std::optional<pid_t> pid = process_of(folder_, rank);
    REQUIRE(pid);
    REQUIRE(::kill(*pid, signal) == 0);
  }
  /// Sends a signal to one rank; returns how many seconds later the job has ended.
  double end_by(int signal, int rank) {
    send(signal, rank);
    return end();
  }
  /// Returns how many seconds it takes until the job has ended.
  double end() {
    const double begin_s = steady_seconds();
    code_ = process_.wait();
    return steady_seconds() - begin_s;
  }
  [[nodiscard]] int code() const { return code_; }
  [[nodiscard]] std::string text() const { return process_.text(); }

 private:
  const Folder& folder_;
  Process process_;
  int code_ = -1;
};

/// While it lives, mpirun does not kill ranks a second after it has told them to end, which it does
/// when the first one has ended.
class PatientLauncher {
 public:
  PatientLauncher() { ::setenv(kSeconds, "10", 1); }
  ~PatientLauncher() { ::unsetenv(kSeconds); }
  PatientLauncher(const PatientLauncher&) = delete;
  PatientLauncher& operator=(const PatientLauncher&) = delete;

 private:
  static constexpr const char* kSeconds = "OMPI_MCA_odls_base_sigkill_timeout";
};

}  // namespace

TEST_CASE("a job of which a rank is stopped ends in time, and the others name the rank",
          "[slow][hang]") {
  constexpr double kLimitS = 2;
  for (const int ranks : {2, 4}) {
    const Folder folder;
    Job job(folder, ranks, "--set run.watchdog_s=2");
    const double seconds = job.end_by(SIGSTOP, ranks - 1);
    const std::string text = job.text();
    INFO(text);
    CHECK(seconds > kLimitS / 2);
    CHECK(seconds < kLimitS + 5);
    CHECK(job.code() == 5);
    const std::string silent = "exit code 5: rank " + std::to_string(ranks - 1) + " is silent";
    for (int rank = 0; rank + 1 < ranks; ++rank) {
      CHECK_THAT(text, ContainsSubstring("this rank, " + std::to_string(rank) + ": "));
    }
    CHECK_THAT(text, ContainsSubstring(silent) && ContainsSubstring("lane runs"));
    CHECK_THAT(read_file(folder / "run/train.log"), ContainsSubstring(silent));
  }
}

TEST_CASE("a job of which a rank is killed ends within ten seconds", "[slow][hang]") {
  for (const int ranks : {2, 4}) {
    const Folder folder;
    Job job(folder, ranks, "");
    CHECK(job.end_by(SIGKILL, 1) < 10);
    INFO(job.text());
    CHECK(job.code() != 0);
    CHECK_THAT(job.text(), ContainsSubstring("rank 1"));
  }
}

TEST_CASE("a job of which a rank throws ends within ten seconds, with the rank's error",
          "[slow][hang]") {
  if (STRATA_TESTS_SANITIZED) {
    WARN("skipped: a sanitizer must be the first library");
    return;
  }
  for (const int ranks : {2, 4}) {
    const Folder folder;
    const std::string data = tokenize_text(folder);
    Job job(folder, ranks, data,
            "LD_PRELOAD=" STRATA_FAULTY_DISK
            " FAULT_RANK=1 FAULT_PATH=/train.bin FAULT_CALL=pread FAULT_AFTER=120");
    CHECK(job.end() < 10);
    INFO(job.text());
    CHECK(job.code() == 2);
    CHECK_THAT(job.text(), ContainsSubstring("[rank 1 of " + std::to_string(ranks) + "] ") &&
                               ContainsSubstring("train.bin"));
  }
}

TEST_CASE("a signal that reaches a rank when the run is over leaves it its exit code",
          "[slow][hang]") {
  if (STRATA_TESTS_SANITIZED) {
    WARN("skipped: a sanitizer must be the first library");
    return;
  }
  // The jobs run side by side: mpirun sleeps for as long as it is patient, twice.
  const PatientLauncher patient;
  constexpr std::array kSignals{SIGUSR1, SIGTERM, SIGUSR2};
  const std::array<Folder, kSignals.size()> folders{Folder("_a"), Folder("_b"), Folder("_c")};
  std::vector<std::unique_ptr<Job>> jobs;
  for (const Folder& folder : folders) {
    const std::string wrapper = folder / "wrapper.sh";  // mpirun ends with rank 0's code
    std::ofstream(wrapper) << "trap : TERM\n"
                              "\"$@\"\n"
                              "code=$?\n"
                              "echo \"rank $OMPI_COMM_WORLD_RANK ends with $code\"\n"
                              "exit $code\n";
    jobs.push_back(std::make_unique<Job>(
        folder, 2, "", "LD_PRELOAD=" STRATA_LATE_END " LATE_RANK=1 LATE_MS=2000 sh " + wrapper));
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i]->send(SIGUSR1, 0);
    wait_for(folders[i] / "process.txt", "ended by SIGUSR1");
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    jobs[i]->send(kSignals[i], 1);
  }
  for (const std::unique_ptr<Job>& job : jobs) {
    job->end();
    INFO(job->text());
    CHECK(job->code() == 75);
    CHECK_THAT(job->text(), ContainsSubstring("rank 1 ends with 75"));
  }
}
#endif

}  // namespace strata::test
