// Runs that save checkpoints, go on from them, and are sent signals or killed meanwhile: what tests
// of the program need to start such runs and to compare what they leave.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "e2e/program.h"
#include "support/catch.h"

namespace strata::test {

inline const std::string kProgram = STRATA_PROGRAM " ";

/// Arguments of a run of steps that take a millisecond.
inline std::string train_short(const Folder& folder, const std::string& name,
                               const std::string& more) {
  return "train " STRATA_CONFIGS "/tiny-cpu.json --output " + (folder / name) +
         " --set data.sequence_length=16 --set schedule.rows=1 --set run.threads=1"
         " --set run.log_every=1000 --set run.steps=12 --set checkpoint.every_steps=4"
         " --set checkpoint.keep=1 " +
         more;
}

/// The program at work, until it ends by itself or by a signal.
class Process {
 public:
  Process(const Folder& folder, const std::string& command) : log_(folder / "process.txt") {
    child_ = ::fork();
    if (child_ != 0) return;
    const std::string all = "exec " + command + " > " + log_ + " 2>&1 < /dev/null";
    ::signal(SIGINT, SIG_DFL);
    ::execl("/bin/sh", "sh", "-c", all.c_str(), nullptr);
    ::_exit(127);
  }
  ~Process() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void send(int signal) const { ::kill(child_, signal); }
  /// Waits for the end; returns the exit code, or minus the signal.
  int wait() {
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  [[nodiscard]] std::string text() const { return read_file(log_); }

 private:
  std::string log_;
  pid_t child_ = -1;
};

/// Waits, at most a minute, until a file of a run has this text.
inline void wait_for(const std::string& file, const std::string& text) {
  for (int i = 0; i < 6000; ++i) {
    if (read_file(file).find(text) != std::string::npos) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  FAIL(file << " does not get " << text);
}

inline std::string checkpoint(const std::string& run_folder, long step) {
  std::string digits = std::to_string(step);
  digits.insert(0, 8 - digits.size(), '0');
  return run_folder + "/checkpoints/step-" + digits;
}

/// Returns what differs between two checkpoints of the same step, or nothing.
inline std::string difference(const std::string& one, const std::string& other) {
  std::size_t files = 0;
  for (const std::string part : {"/model", "/state"}) {
    if (!fs::exists(one + part) || !fs::exists(other + part)) return "one is missing";
    for (const fs::directory_entry& entry : fs::directory_iterator(one + part)) {
      const std::string name = part + "/" + entry.path().filename().string();
      if (read_file(one + name) != read_file(other + name)) return name + " differs";
      ++files;
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(other + part)) {
      if (!fs::exists(one + part + "/" + entry.path().filename().string())) return "one more file";
    }
  }
  if (files == 0) return "there are no files";
  nlohmann::json a = nlohmann::json::parse(read_file(one + "/manifest.json"));
  nlohmann::json b = nlohmann::json::parse(read_file(other + "/manifest.json"));
  for (const char* const key : {"config", "hash", "xxh3"}) {  // where the run lies
    a.erase(key);
    b.erase(key);
  }
  return a == b ? "" : "the manifest differs";
}

inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

inline std::vector<nlohmann::json> lines_of(const std::string& run_folder,
                                            const std::string& event) {
  std::vector<nlohmann::json> lines;
  for (const nlohmann::json& line : metrics(run_folder)) {
    if (line["event"] == event) lines.push_back(line);
  }
  return lines;
}

/// Goes on with the run, and checks that it ends as the reference did.
inline void check_goes_on(const Folder& folder, const std::string& more, long steps) {
  const Outcome done = strata(folder, train_short(folder, "run", more + " --resume auto"));
  INFO(done.text);
  REQUIRE(done.code == 0);
  CHECK(difference(checkpoint(folder / "reference", steps), checkpoint(folder / "run", steps)) ==
        "");
  // Of a run that died behind its last commit the one before is there as well, and nothing else.
  const std::vector<std::string> names = names_in(folder / "run/checkpoints");
  CHECK(names.size() <= 2);
  for (const std::string& name : names) CHECK(name.starts_with("step-"));
}

}  // namespace strata::test
