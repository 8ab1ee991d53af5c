// Tests what happens to runs that meet other runs, signals, full disks and closed pipes, by the
// program's exit codes and by what is left in its folders.

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "e2e/saved_runs.h"
#include "support/catch.h"
#include "support/places.h"

namespace strata::test {

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

/// Arguments of a run that has no end that a test would see.
std::string train_long(const Folder& folder, const std::string& more = "") {
  return train_tiny(folder, "run", "--set run.steps=1000000000 --set run.threads=1 " + more);
}

/// Waits until the run has written a line of this step.
void wait_for_step(const Folder& folder, const Process& process, int step) {
  process.wait_for(folder / "run/metrics.jsonl",
                   R"("event":"step","step":)" + std::to_string(step) + ",");
}

/// Checks what a run leaves that was told to end.
void check_ended_by(const Folder& folder, const std::string& signal) {
  const std::vector<nlohmann::json> lines = metrics(folder / "run");
  REQUIRE(!lines.empty());
  const nlohmann::json& end = lines.back();
  CHECK(end["event"] == "end");
  CHECK(end["reason"] == signal);
  CHECK(end["steps"] == losses(folder / "run").size());
  const std::string log = read_file(folder / "run/train.log");
  CHECK_THAT(log, ContainsSubstring("ended by " + signal + ": "));
  CHECK_THAT(log, ContainsSubstring("run folder " + (folder / "run")));
}

}  // namespace

TEST_CASE("a run never destroys another, unless it is told to") {
  const Folder folder;
  REQUIRE(strata(folder, train_tiny(folder, "run", "")).code == 0);
  const std::string before = read_file(folder / "run/metrics.jsonl");
  const Outcome refused = strata(folder, train_tiny(folder, "run", "--set run.steps=2"));
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring(folder / "run") && ContainsSubstring("holds a run") &&
                               ContainsSubstring("--output") && ContainsSubstring("--overwrite"));
  CHECK(read_file(folder / "run/metrics.jsonl") == before);
  CHECK(strata(folder, "train " + (folder / "run/config.json")).code == 2);
  const Outcome replaced =
      strata(folder, train_tiny(folder, "run", "--overwrite --set run.steps=2"));
  INFO(replaced.text);
  CHECK(replaced.code == 0);
  CHECK(losses(folder / "run").size() == 2);
  CHECK(count_of(read_file(folder / "run/train.log"), "done: ") == 1);
}

TEST_CASE("a folder in which a run is at work is refused") {
  const Folder folder;
  Process process(folder, kProgram + train_long(folder));
  wait_for_step(folder, process, 1);
  const Outcome refused = strata(folder, train_tiny(folder, "run", "--overwrite"));
  INFO(refused.text);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("is in use by process"));
  process.send(SIGTERM);
  CHECK(process.wait() == 75);
  check_ended_by(folder, "SIGTERM");
}

TEST_CASE("a signal ends a run between its steps, with a last line and an exit code of its own") {
  for (const int signal : {SIGTERM, SIGINT}) {
    const Folder folder;
    // Twice in a row, as those send it who mean the process and its group. That both come within a
    // second is said by the clock, which a sanitizer does not let in.
    std::ofstream(folder / "clock").close();
    const std::string clock = kSanitized ? ""
                                         : "env STILL_CLOCK=" + (folder / "clock") +
                                               " LD_PRELOAD=" + built("libfile_clock.so") + " ";
    Process process(folder, clock + kProgram + train_long(folder));
    wait_for_step(folder, process, 1);
    process.send(signal);
    if (!kSanitized) process.send(signal);
    CHECK(process.wait() == 75);  // what the run has done is saved
    INFO(process.text());
    check_ended_by(folder, signal == SIGINT ? "SIGINT" : "SIGTERM");
    for (const fs::directory_entry& entry : fs::directory_iterator(folder / "run")) {
      CHECK(entry.path().extension() != ".tmp");
    }
  }
}

TEST_CASE("a signal ends a validation between its passes") {
  const Folder folder;
  // A token a pass: a validation takes hours. It follows the line of the second step, with nothing
  // between them that looks for signals. The file is a hole and takes no room.
  const std::string tokens = folder / "zeros.u16";
  std::ofstream(tokens, std::ios::binary).close();
  fs::resize_file(tokens, std::uintmax_t{2} << 30);
  Process process(
      folder, kProgram + train_long(folder,
                                    "--set run.eval_every=2 --set data.sequence_length=1 --set "
                                    "schedule.rows=1 --set schedule.sub_batches=1 --set "
                                    "data.synthetic=false --set data.dtype=u16 --set data.train=" +
                                        tokens + " --set data.validation=" + tokens));
  wait_for_step(folder, process, 2);
  process.send(SIGTERM);
  CHECK(process.wait() == 75);
  INFO(process.text());
  check_ended_by(folder, "SIGTERM");
  CHECK(losses(folder / "run").size() == 2);
}

TEST_CASE("a run starts with at most 8 lines and ends with what came out and where") {
  const Folder folder;
  const std::string data = tokenize_text(folder);
  const Outcome done =
      strata(folder, train_tiny(folder, "run", data + " --set run.eval_every=2 --set run.steps=4"));
  INFO(done.text);
  REQUIRE(done.code == 0);
  const std::size_t header = done.text.find("grad norm");
  REQUIRE(header != std::string::npos);
  CHECK(std::count(done.text.begin(), done.text.begin() + static_cast<std::ptrdiff_t>(header),
                   '\n') <= 8);
  const std::size_t next_line = done.text.rfind('\n', done.text.size() - 2) + 1;
  CHECK_THAT(done.text.substr(next_line), ContainsSubstring("next     strata generate "));
  const std::size_t last_line = done.text.rfind('\n', next_line - 2) + 1;
  const std::string last = done.text.substr(last_line, next_line - last_line);
  for (const std::string& text :
       {std::string("done: 4 of 4 steps, 512 tokens in "), std::string(" tokens/s), loss "),
        std::string(", validation loss "), folder / "run"}) {
    CHECK_THAT(last, ContainsSubstring(text));
  }
  CHECK(done.text.find("scratch.") == std::string::npos);
  CHECK_THAT(read_file(folder / "run/train.log"), ContainsSubstring("scratch."));
  CHECK(done.text.find('\r') == std::string::npos);
}

TEST_CASE("files that may grow no further cost lines and not the run", "[long]") {
  const Folder folder;
  const Outcome done =
      run(folder, "bash -c '(ulimit -f 8; exec " + std::string(strata_program()) + " " +
                      train_tiny(folder, "run",
                                 "--set run.steps=60 "
                                 "--set checkpoint.at_end=false") +
                      ") 2>&1 | cat; exit ${PIPESTATUS[0]}'");
  INFO(done.text);
  CHECK(done.code == 0);
  CHECK(count_of(done.text, "a line could not be written") == 1);
  CHECK_THAT(done.text, ContainsSubstring("lines of metrics lost; run folder"));
  CHECK(metrics(folder / "run").size() > 10);  // all of them whole
}

TEST_CASE("what does not reach standard output is no success") {
  const Folder folder;
  const std::string config = configs_folder() + "/tiny-cpu.json";
  for (const std::string& command :
       {"plan " + config, std::string("config-help"), std::string("--help"),
        "bench " + config + " --set run.steps=1 --set optimizer.warmup_steps=0"}) {
    const Outcome full =
        run(folder, "sh -c '" + std::string(strata_program()) + " " + command + " > /dev/full'");
    INFO(command << "\n" << full.text);
    CHECK(full.code == 1);
    CHECK_THAT(full.text, ContainsSubstring("standard output could not be written"));
  }
}

TEST_CASE("a reader that has seen enough ends the program without a word") {
  const Folder folder;
  const Outcome closed = run(folder, "bash -c '" + std::string(strata_program()) +
                                         " config-help | true; code=${PIPESTATUS[0]}; exit $code'");
  CHECK((closed.code == 0 || closed.code == 128 + SIGPIPE));
  CHECK(closed.text.empty());
}

TEST_CASE("a training outlives the reader of its log") {
  const Folder folder;
  const Outcome closed =
      run(folder, "bash -c '" + std::string(strata_program()) + " " +
                      train_tiny(folder, "run", "") + " 2>&1 | true; exit ${PIPESTATUS[0]}'");
  CHECK(closed.code == 0);
  CHECK(losses(folder / "run").size() == 4);
}

TEST_CASE("bench writes its results over no file that holds something else") {
  const Folder folder;
  REQUIRE(run(folder, "cp " + configs_folder() + "/tiny-cpu.json " + (folder / "mine.json")).code ==
          0);
  const std::string before = read_file(folder / "mine.json");
  const Outcome refused = strata(folder, "bench " + (folder / "mine.json") +
                                             " --set run.steps=1 --set optimizer.warmup_steps=0 "
                                             "--json " +
                                             (folder / "mine.json"));
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("--json") && ContainsSubstring("mine.json"));
  CHECK(read_file(folder / "mine.json") == before);
}

#ifdef STRATA_MPIEXEC
TEST_CASE("a folder that holds a run is refused to all ranks", "[mpi]") {
  const Folder folder;
  REQUIRE(strata(folder, train_tiny(folder, "run", "")).code == 0);
  const std::string before = read_file(folder / "run/metrics.jsonl");
  const Outcome refused = strata_on_ranks(folder, 2, train_tiny(folder, "run", ""));
  INFO(refused.text);
  CHECK(refused.code == 2);
  CHECK(count_of(refused.text, "holds a run") == 1);
  CHECK(read_file(folder / "run/metrics.jsonl") == before);
}

TEST_CASE("a signal to one rank ends all of them after the same step", "[mpi]") {
  const Folder folder;
  Process process(folder, on_ranks(2) + train_long(folder));
  wait_for_step(folder, process, 1);
  // The file of the lock names the process of rank 0; rank 1 and the launcher get nothing.
  const std::string holder = read_file(folder / "run/.lock");
  REQUIRE(::kill(static_cast<pid_t>(std::stol(holder.substr(holder.find(' ')))), SIGTERM) == 0);
  CHECK(process.wait() == 75);
  INFO(process.text());
  check_ended_by(folder, "SIGTERM");
}
#endif

}  // namespace strata::test
