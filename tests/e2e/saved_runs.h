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
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "e2e/program.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"

namespace strata::test {

inline const std::string kProgram = strata_program() + " ";

/// Arguments of a run of steps that take a millisecond.
inline std::string train_short(const Folder& folder, const std::string& name,
                               const std::string& more) {
  return "train " + configs_folder() + "/tiny-cpu.json --output " + (folder / name) +
         " --set data.sequence_length=16 --set schedule.rows=1 --set run.threads=1"
         " --set run.log_every=1000 --set run.steps=12 --set checkpoint.every_steps=4"
         " --set checkpoint.keep=1 " +
         kNarrow + more;
}

/// Arguments of the same run with no end that a test would see.
inline const std::string kEndless =
    " --set run.steps=1000000000 --set checkpoint.every_steps=null ";

/// Returns whether something comes to be while nothing makes that impossible. It takes as long as
/// it takes: the limit only ends what hangs.
inline bool comes_to_be(
    const std::function<bool()>& is, const std::function<bool()>& cannot = [] { return false; }) {
  constexpr std::chrono::milliseconds kMoment{5};
  constexpr std::chrono::minutes kHangs{20};
  const auto end = std::chrono::steady_clock::now() + kHangs;
  while (!is()) {
    if (std::chrono::steady_clock::now() > end) return false;
    if (cannot()) return is();
    std::this_thread::sleep_for(kMoment);
  }
  return true;
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

  void send(int signal) const {
    REQUIRE(child_ > 0);
    ::kill(child_, signal);
  }
  [[nodiscard]] bool has_ended() const {
    siginfo_t found{};
    constexpr int kLook = WEXITED | WNOHANG | WNOWAIT;
    const auto child = static_cast<id_t>(child_);
    return ::waitid(P_PID, child, &found, kLook) != 0 || found.si_pid == child_;
  }
  /// Waits until something is so, which must come to be before the process ends.
  void wait_until(const std::string& what, const std::function<bool()>& is) const {
    if (comes_to_be(is, [this] { return has_ended(); })) return;
    FAIL("it never happens that " << what << "; the process said:\n" << text());
  }
  /// Waits until a file has this text.
  void wait_for(const std::string& file, const std::string& wanted) const {
    wait_until(file + " gets " + wanted,
               [&] { return read_file(file).find(wanted) != std::string::npos; });
  }
  /// Waits until the process has printed this text.
  void wait_for(const std::string& wanted) const { wait_for(log_, wanted); }
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

/// The test's side of a place at which a library holds a program (e2e/hold.h).
class Gate {
 public:
  explicit Gate(const Folder& folder) : file_(folder / "gate") {}
  /// Returns what is to be made known to the program, of which the gate is waited for by
  /// `variable`.
  [[nodiscard]] std::string known_as(const std::string& variable) const {
    return " " + variable + "=" + file_ + " ";
  }
  void wait_until_held(const Process& process) const {
    process.wait_until("it is held", [this] { return fs::exists(file_ + ".held"); });
  }
  void open() const { std::ofstream(file_).close(); }

 private:
  std::string file_;
};

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
  nlohmann::json a = parse_json<nlohmann::json>(read_file(one + "/manifest.json"));
  nlohmann::json b = parse_json<nlohmann::json>(read_file(other + "/manifest.json"));
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
