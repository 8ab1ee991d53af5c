// Tests what the program shows of work that takes seconds: on a terminal, and in a pipe.

#include <atomic>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "e2e/lines.h"
#include "e2e/saved_runs.h"
#include "strata/base/text.h"
#include "support/catch.h"
#include "support/places.h"
#include "support/terminal.h"

namespace strata::test {

namespace {

/// A run whose last checkpoint takes some seconds at least, in which it sleeps.
std::string slow_save(const Folder& folder) {
  return train_wide(folder, "run", "--set debug.disk_gbs=0.001 --set run.log_every=1");
}

/// Runs a command whose standard error is a terminal, and returns what that got. `once` is called
/// when the terminal has got `first` and then `second`, which must be.
std::string shown_by(const Folder& folder, const std::string& command, const std::string& first,
                     const std::string& second, const std::function<void(const Process&)>& once,
                     int code) {
  const Terminal terminal(200);
  std::string shown;
  std::atomic<bool> seen = false;
  {
    const std::jthread reader([&] {
      shown = terminal.read_shown([&](const std::string& text) {
        const std::size_t at = seen ? text.npos : text.find(first);
        if (at != text.npos && text.find(second, at + first.size()) != text.npos) seen = true;
      });
    });
    Process process(folder, "sh -c 'exec " + command + " 2> " + terminal.name() + "'");
    const bool comes =
        comes_to_be([&] { return seen.load(); }, [&] { return process.has_ended(); });
    if (comes) once(process);
    CHECK(process.wait() == code);
    terminal.end();
    CHECK(comes);
  }
  INFO(printable(shown));
  CHECK(seen);
  return shown;
}

/// The start of a command that is held at a write to a file whose path has this text, and later
/// ones.
std::string held(const Gate& gate, const std::string& path, int after) {
  return "env LD_PRELOAD=" + built("libfaulty_disk.so") + " FAULT_PATH=" + path +
         " HOLD_CALL=pwrite HOLD_AFTER=" + std::to_string(after) + gate.known_as("HOLD_UNTIL") +
         kProgram;
}

}  // namespace

TEST_CASE("a terminal shows a save in a line that is gone before the log goes on") {
  if (skips_preload()) return;
  const Folder folder;
  const Gate gate(folder);
  const std::string save = "\r\033[Ksaving a checkpoint: ";
  // Of 33 writes some are left, and enough are done for a rate.
  constexpr int kDone = 30;
  const std::string shown = shown_by(
      folder,
      held(gate, "/checkpoints/", kDone) + train_wide(folder, "run", "--set run.log_every=1"), save,
      "/s, ", [&](const Process&) { gate.open(); }, 0);
  const std::size_t line = shown.find(save);
  REQUIRE(line != shown.npos);
  CHECK_THAT(shown.substr(line), ContainsSubstring(" MiB, ") && ContainsSubstring("/s, "));
  CHECK_THAT(shown.substr(line), ContainsSubstring("\r\033[K["));
  CHECK_THAT(shown.substr(line), ContainsSubstring("checkpoint of step 4 saved in "));
  CHECK(shown.substr(shown.rfind("done: ")).find("saving") == std::string::npos);
}

TEST_CASE("a terminal shows how far a measured load is", "[long]") {
  // It would take many minutes, and is ended once it is shown.
  const Folder folder;
  const std::string bench = kProgram + "bench " + configs_folder() +
                            "/quickstart.json --generate --prompts 100000 --prompt-tokens 60 "
                            "--max-tokens 40 --set run.threads=1";
  shown_by(
      folder, bench, "\r\033[Kmeasuring: ", "/4,000,000 tokens, ",
      [](const Process& process) { process.send(SIGTERM); }, 128 + SIGTERM);
}

TEST_CASE("a terminal shows what the self-test is at", "[long]") {
  if (skips_preload()) return;
  const Folder folder;
  const Gate gate(folder);
  shown_by(
      folder, held(gate, "strata-self-test", 0) + "doctor --self-test --folder " + (folder / ""),
      "\r\033[Kself-test: ", "", [&](const Process&) { gate.open(); }, 0);
}

TEST_CASE("a pipe and the log file get none of it, and the last line says what to do next") {
  const Folder folder;
  const Outcome trained = strata(folder, slow_save(folder));
  INFO(trained.text);
  CHECK(trained.code == 0);
  for (const std::string& text : {trained.text, read_file(folder / "run/train.log")}) {
    CHECK_THAT(text, ContainsSubstring("checkpoint of step 4 saved in "));
    CHECK_THAT(text, !ContainsSubstring("saving a checkpoint") && !ContainsSubstring("\r"));
    const std::string last = text.substr(text.rfind('\n', text.size() - 2) + 1);
    CHECK_THAT(last, ContainsSubstring("next     strata generate " + (folder / "run") +
                                       " --prompt TEXT, strata export "));
  }
}

}  // namespace strata::test
