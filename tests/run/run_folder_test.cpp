// Tests whom a run folder lets in and what becomes of the files in it, with other processes as
// children of this one.

#include "strata/run/run_folder.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "strata/base/error.h"
#include "strata/config/config.h"
#include "support/catch.h"
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
  write(path / "notes.txt");
  for (const char* name : {"step-00000012", "step-00000012.abandoned-2"}) {
    fs::create_directories(path / "checkpoints" / name);
  }
  CHECK(refusal(path, OldRun::kReplace) == "no error");
  for (const char* gone :
       {"checkpoints/step-00000012", "checkpoints/step-00000012.abandoned-2", "metrics.jsonl",
        "train.log", "plans.json", "trace.json", "plans.json.17.tmp"}) {
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

TEST_CASE("a run that goes on waits for a process that is ending, and for no other") {
  const ScratchFolder scratch;
  const bool ending = GENERATE(true, false);
  CAPTURE(ending);
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunFolder folder(scratch.file("."), OldRun::kRefuse);
    // A process whose first thread has ended is one that the kernel takes down, for as long as
    // another thread keeps it.
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::seconds(4));
      _exit(0);
    }).detach();
    const char byte = 1;
    if (::write(ready[1], &byte, 1) != 1) _exit(1);
    if (ending) ::syscall(SYS_exit, 0);
    pause();
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  const auto begin = std::chrono::steady_clock::now();
  const std::string refused = refusal(scratch.file("."), OldRun::kResume);
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  if (ending) {
    CHECK(refused == "no error");
    CHECK(waited.count() > 3);
  } else {
    CHECK_THAT(refused, ContainsSubstring("is in use by process " + std::to_string(child)));
    CHECK(waited.count() < 3.5);
    CHECK(waited.count() > 1.5);
  }
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
