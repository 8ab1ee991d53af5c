// Tests whom a run folder lets in and what becomes of the files in it, with other processes as
// children of this one.

#include "strata/runfiles/run_folder.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>

#include "strata/base/error.h"
#include "strata/config/config.h"
#include "support/catch.h"
#include "support/exchanged_link.h"
#include "support/patience.h"
#include "support/scratch_folder.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text = "text") { std::ofstream(file) << text; }

/// Leaves what a run leaves.
void leave_run(const fs::path& folder) {
  fs::create_directories(folder);
  save_run_config(RunConfig{}, folder / "config.json");
  for (const char* name : {"metrics.jsonl", "train.log", "plans.json", "trace.json"}) {
    write(folder / name);
  }
}

/// Returns what a folder holds.
std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    names.insert(entry.path().string());
  }
  return names;
}

std::string refusal(const fs::path& folder, OldRun old_run = OldRun::kRefuse) {
  try {
    const RunFolder made(folder, old_run);
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a folder that is not there is made") {
  const ScratchFolder scratch;
  const fs::path path = fs::path(scratch.file(".")) / "a" / "b";
  const RunFolder folder(path, OldRun::kRefuse);
  CHECK(fs::is_directory(path));
  CHECK(folder.metrics() == path / "metrics.jsonl");
}

TEST_CASE("a folder that holds a run is refused as it is, by what it holds and with the remedies") {
  const ScratchFolder scratch;
  const fs::path path = fs::path(scratch.file(".")) / "run";
  leave_run(path);
  CHECK_THAT(refusal(path),
             ContainsSubstring(path.string() + " holds a run (config.json, metrics.jsonl)") &&
                 ContainsSubstring("--output") && ContainsSubstring("--overwrite"));
  CHECK_FALSE(fs::exists(path / ".lock"));
  fs::remove(path / "config.json");
  CHECK_THAT(refusal(path), ContainsSubstring("holds a run (metrics.jsonl)"));
}

TEST_CASE("a start that failed leaves nothing that keeps the next one out") {
  const ScratchFolder scratch;
  write(fs::path(scratch.file(".")) / "train.log", "the reason\n");
  CHECK(refusal(scratch.file(".")) == "no error");
  CHECK(fs::file_size(fs::path(scratch.file(".")) / "train.log") == 11);
}

TEST_CASE("overwriting removes what a run left, and nothing else") {
  const ScratchFolder scratch;
  const fs::path path = fs::path(scratch.file(".")) / "run";
  leave_run(path);
  write(path / "plans.json.17.tmp");
  write(path / ".config.json.tmp0123456789abcdef");
  write(path / "notes.txt");
  for (const char* name : {"step-00000012", "step-00000012.abandoned-2"}) {
    fs::create_directories(path / "checkpoints" / name);
  }
  CHECK(refusal(path, OldRun::kReplace) == "no error");
  for (const char* gone : {"checkpoints/step-00000012", "checkpoints/step-00000012.abandoned-2",
                           "metrics.jsonl", "train.log", "plans.json", "trace.json",
                           "plans.json.17.tmp", ".config.json.tmp0123456789abcdef"}) {
    CHECK_FALSE(fs::exists(path / gone));
  }
  for (const char* kept : {"config.json", "notes.txt", "checkpoints"}) {
    CHECK(fs::exists(path / kept));
  }
}

TEST_CASE("overwriting removes a link and not what it points to") {
  const ScratchFolder scratch;
  const fs::path path = fs::path(scratch.file(".")) / "run";
  leave_run(path);
  write(fs::path(scratch.file(".")) / "precious");
  fs::remove(path / "metrics.jsonl");
  fs::create_symlink("../precious", path / "metrics.jsonl");
  CHECK(refusal(path, OldRun::kReplace) == "no error");
  CHECK(fs::exists(fs::path(scratch.file(".")) / "precious"));
}

TEST_CASE("overwriting removes nothing outside of the run, whatever changes places meanwhile") {
  const ScratchFolder scratch;
  require_nothing_outside_removed(scratch.file("."), "run/checkpoints/step-00000012/model", [&] {
    const RunFolder made(scratch.file("run"), OldRun::kReplace);
  });
}

TEST_CASE("a config.json that no run wrote is never written over") {
  const ScratchFolder scratch;
  const fs::path config = fs::path(scratch.file(".")) / "config.json";
  for (const char* text : {R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64})",
                           R"({"run": {"steps": 10}, "data": {"train": "a.bin"}})", "no JSON"}) {
    write(config, text);
    for (const OldRun old_run : {OldRun::kRefuse, OldRun::kReplace}) {
      CHECK_THAT(
          refusal(scratch.file("."), old_run),
          ContainsSubstring("config.json would be written over") && ContainsSubstring("--output"));
    }
  }
}

TEST_CASE("what a run would wait for, or write into, is refused where it expects a file") {
  const ScratchFolder scratch;
  const fs::path path = fs::path(scratch.file(".")) / "run";
  leave_run(path);
  for (const char* name : {"metrics.jsonl", "samples.jsonl", "train.log", "config.json",
                           "trace.json", "plans.json", ".lock"}) {
    const fs::path file = path / name;
    const fs::path kept = path / "kept";
    if (fs::exists(file)) fs::rename(file, kept);
    const auto check = [&](const std::string& what) {
      for (const OldRun old_run : {OldRun::kResume, OldRun::kReplace}) {
        CHECK_THAT(refusal(path, old_run), ContainsSubstring(file.string() + " is " + what) &&
                                               ContainsSubstring("remove or rename it") &&
                                               ContainsSubstring("--output"));
      }
      fs::remove(file);
    };
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
    check("a pipe or a device");
    fs::create_directory(file);
    check("a folder");
    if (fs::exists(kept)) fs::rename(kept, file);
  }
  CHECK(refusal(path, OldRun::kResume) == "no error");
}

TEST_CASE("a link in the place of a file that a run writes is refused, and the folder stays") {
  const ScratchFolder scratch;
  const fs::path path = fs::path(scratch.file(".")) / "run";
  const std::string precious = scratch.write("precious", "text");
  for (const char* name : {"metrics.jsonl", "samples.jsonl", "train.log", "config.json",
                           "trace.json", "plans.json", ".lock"}) {
    for (const std::string& target : {precious, scratch.file("none"), std::string("/dev/null")}) {
      leave_run(path);
      fs::create_directories(path / "checkpoints/step-00000012");
      fs::remove(path / name);
      fs::create_symlink(target, path / name);
      const std::set<std::string> before = names_in(path);
      const bool kept = name == std::string("config.json") || name == std::string(".lock");
      CHECK_THAT(refusal(path, OldRun::kResume),
                 ContainsSubstring((path / name).string() + " is a link") &&
                     ContainsSubstring("remove or rename it"));
      CHECK(names_in(path) == before);
      const std::string replacing = refusal(path, OldRun::kReplace);
      if (kept) {
        CHECK_THAT(replacing, ContainsSubstring((path / name).string() + " is a link"));
        CHECK(names_in(path) == before);
      } else {
        CHECK(replacing == "no error");
        CHECK_FALSE(fs::is_symlink(path / name));
      }
      CHECK(fs::file_size(precious) == 4);
      CHECK_FALSE(fs::exists(scratch.file("none")));
      fs::remove_all(path);
    }
  }
}

TEST_CASE("what has the name of a folder of saves and is none is refused as it is") {
  const ScratchFolder scratch;
  const fs::path path = fs::path(scratch.file(".")) / "run";
  leave_run(path);
  for (const char* name : {"checkpoints", "weights"}) {
    for (const OldRun old_run : {OldRun::kResume, OldRun::kReplace}) {
      write(path / name);
      CHECK_THAT(refusal(path, old_run),
                 ContainsSubstring((path / name).string()) && ContainsSubstring("is a file"));
      CHECK(fs::file_size(path / name) == 4);
      fs::remove(path / name);
      fs::create_symlink("/nowhere/at/all", path / name);
      CHECK_THAT(refusal(path, old_run),
                 ContainsSubstring((path / name).string()) && ContainsSubstring("mount the disk"));
      fs::remove(path / name);
    }
    CHECK(fs::exists(path / "metrics.jsonl"));
  }
}

TEST_CASE("overwriting removes what lies behind a link to another disk") {
  const ScratchFolder scratch;
  const fs::path path = fs::path(scratch.file(".")) / "run";
  const fs::path disk = fs::path(scratch.file(".")) / "disk";
  leave_run(path);
  fs::create_directories(disk / "step-00000012");
  write(disk / ".strata-probe-12ab");
  write(disk / "notes.txt");
  fs::create_directory_symlink(disk, path / "checkpoints");
  write(path / "metrics.jsonl.old-2");
  CHECK(refusal(path, OldRun::kReplace) == "no error");
  CHECK_FALSE(fs::exists(disk / "step-00000012"));
  CHECK_FALSE(fs::exists(disk / ".strata-probe-12ab"));
  CHECK(fs::exists(disk / "notes.txt"));
  CHECK(fs::is_symlink(path / "checkpoints"));
  CHECK_FALSE(fs::exists(path / "metrics.jsonl.old-2"));
}

TEST_CASE("a folder has one process, however the one before it ended") {
  const ScratchFolder scratch;
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunFolder folder(scratch.file("."), OldRun::kRefuse);
    const char byte = 1;
    if (::write(ready[1], &byte, 1) == 1) pause();
    _exit(0);
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  for (const OldRun old_run : {OldRun::kRefuse, OldRun::kReplace}) {
    CHECK_THAT(refusal(scratch.file("."), old_run),
               ContainsSubstring("is in use by process " + std::to_string(child)));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  CHECK(refusal(scratch.file(".")) == "no error");
}

namespace {

/// Another process that has a folder. Once its first thread has ended it is one that the kernel
/// takes down, for as long as another thread keeps it.
class Holder {
 public:
  explicit Holder(const std::string& folder, bool ending) {
    REQUIRE(pipe(ready_.data()) == 0);
    REQUIRE(pipe(end_.data()) == 0);
    child_ = fork();
    if (child_ == 0) hold(folder, ending);
    char byte = 0;
    REQUIRE(read(ready_[0], &byte, 1) == 1);
    if (ending) REQUIRE(comes_true([&] { return first_thread_has_ended(); }));
  }
  ~Holder() {
    kill(child_, SIGKILL);
    end();
    for (const int file : {ready_[0], ready_[1], end_[0], end_[1]}) close(file);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  [[nodiscard]] pid_t process() const { return child_; }
  /// Lets it end, and returns when it has.
  void end() {
    if (ended_) return;
    const char byte = 1;
    CHECK(::write(end_[1], &byte, 1) == 1);
    waitpid(child_, nullptr, 0);
    ended_ = true;
  }

 private:
  [[noreturn]] void hold(const std::string& folder, bool ending) const {
    const RunFolder held(folder, OldRun::kRefuse);
    const int end = end_[0];
    std::thread([end] {
      char byte = 0;
      _exit(read(end, &byte, 1) == 1 ? 0 : 1);
    }).detach();
    const char byte = 1;
    if (::write(ready_[1], &byte, 1) != 1) _exit(1);
    if (ending) ::syscall(SYS_exit, 0);
    while (true) pause();
  }
  [[nodiscard]] bool first_thread_has_ended() const {
    std::ifstream in("/proc/" + std::to_string(child_) + "/stat");
    std::string line;
    std::getline(in, line);
    const std::size_t name_end = line.rfind(')');
    return name_end != line.npos && line.substr(name_end).starts_with(") Z");
  }

  std::array<int, 2> ready_{};
  std::array<int, 2> end_{};
  pid_t child_ = -1;
  bool ended_ = false;
};

/// Time that passes by pauses alone, a tenth of a second each. After that of `after_s` comes what
/// `then` does.
class PausedTime {
 public:
  PausedTime(double after_s, std::function<void()> then)
      : after_s_(after_s), then_(std::move(then)) {}
  [[nodiscard]] FolderWait wait() {
    return {.clock = [this] { return 1000 + passed_s(); },
            .pause =
                [this] {
                  ++pauses_;
                  if (passed_s() >= after_s_) then_();
                }};
  }
  [[nodiscard]] double passed_s() const { return 0.1 * pauses_; }

 private:
  int pauses_ = 0;
  double after_s_;
  std::function<void()> then_;
};

}  // namespace

TEST_CASE("a run that goes on waits for a process that is ending, for as long as that takes") {
  const ScratchFolder scratch;
  Holder holder(scratch.file("."), true);
  PausedTime time(30, [&] { holder.end(); });
  CHECK_NOTHROW(RunFolder(scratch.file("."), OldRun::kResume, time.wait()));
  CHECK(time.passed_s() == Approx(30));
}

TEST_CASE("a run that goes on waits two seconds for a process that is not ending, and no longer") {
  const ScratchFolder scratch;
  const Holder holder(scratch.file("."), false);
  PausedTime time(30, [] {});
  CHECK_THROWS_WITH(RunFolder(scratch.file("."), OldRun::kResume, time.wait()),
                    ContainsSubstring("is in use by process " + std::to_string(holder.process())));
  CHECK(time.passed_s() > 1.95);
  CHECK(time.passed_s() < 2.35);
}

TEST_CASE("a lock that names no process but a path leads nowhere") {
  const ScratchFolder scratch;
  const std::string run = scratch.file("run");
  fs::create_directories(run);
  const Holder holder(run, false);
  // What is there looks like a process that the kernel takes down, for ever.
  const std::string posing = scratch.write("posing/stat", "1 (name) S 0 0 0 0 0 4 0 0\n");
  std::array<char, 256> host{};
  REQUIRE(gethostname(host.data(), host.size() - 1) == 0);
  write(run + "/.lock",
        "process .." + fs::path(posing).parent_path().string() + " on " + host.data() + "\n");
  PausedTime time(30, [] {});
  CHECK_THROWS_WITH(RunFolder(run, OldRun::kResume, time.wait()), ContainsSubstring("is in use"));
  CHECK(time.passed_s() < 2.35);
}

TEST_CASE("scratch files of probes that were killed go when the next run comes") {
  const ScratchFolder scratch;
  const std::string probe = scratch.file(".strata-probe-12ab");
  std::ofstream(probe) << "scratch";
  CHECK(refusal(scratch.file(".")) == "no error");
  CHECK_FALSE(std::filesystem::exists(probe));
}

TEST_CASE("a folder that cannot be made is an error that names it") {
  CHECK_THAT(refusal("/proc/no/folder"),
             ContainsSubstring("run.output") && ContainsSubstring("/proc/no/folder"));
}

TEST_CASE("a path that is too long for the system is not repeated at full length") {
  const ScratchFolder scratch;
  std::string long_path = scratch.file("");  // as a whole, while each of its names is short enough
  while (long_path.size() < 5000) long_path += std::string(9, 'x') + '/';
  for (const std::string& path : {scratch.file(std::string(300, 'x')), long_path}) {
    const std::string text = refusal(path);
    CHECK_THAT(text, ContainsSubstring("run.output") && ContainsSubstring("...: ") &&
                         ContainsSubstring("give it a shorter path"));
    CHECK(text.size() < 300);
  }
}

}  // namespace strata::test
