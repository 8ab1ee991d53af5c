// Tests what the program shows of work that takes seconds: on a terminal, and in a pipe.

#include <chrono>
#include <string>
#include <thread>

#include "e2e/lines.h"
#include "e2e/program.h"
#include "strata/base/text.h"
#include "support/catch.h"
#include "support/terminal.h"

namespace strata::test {

namespace {

/// A run whose last checkpoint takes some seconds, in which it sleeps.
std::string slow_save(const Folder& folder) {
  return train_tiny(folder, "run", "--set debug.disk_gbs=0.001 --set run.log_every=1");
}

/// Runs the program, which must succeed, and returns what a terminal got of its standard error.
std::string shown_by(const std::string& arguments) {
  const Terminal terminal(200);
  std::string shown;
  int status = -1;
  {
    const std::jthread reader([&] { shown = terminal.read_shown(); });
    const std::string command = std::string(STRATA_PROGRAM) + " " + arguments +
                                " > /dev/null < /dev/null 2> " + terminal.name();
    status = std::system(command.c_str());
    terminal.end();
  }
  INFO(printable(shown));
  CHECK(status == 0);
  return shown;
}

}  // namespace

TEST_CASE("a terminal shows a save in a line that is gone before the log goes on") {
  const Folder folder;
  const std::string shown = shown_by(slow_save(folder));
  INFO(printable(shown));
  const std::size_t line = shown.find("\r\033[Ksaving a checkpoint: ");
  REQUIRE(line != shown.npos);
  CHECK_THAT(shown.substr(line), ContainsSubstring(" MiB, ") && ContainsSubstring("/s, "));
  CHECK_THAT(shown.substr(line), ContainsSubstring("\r\033[K["));
  CHECK_THAT(shown.substr(line), ContainsSubstring("checkpoint of step 4 saved in "));
  CHECK(shown.substr(shown.rfind("done: ")).find("saving") == std::string::npos);
}

TEST_CASE("a terminal shows how far a measured load is", "[long]") {
  // On one core, where it takes long enough to be worth a word.
  const std::string shown =
      shown_by("bench " STRATA_CONFIGS
               "/quickstart.json --generate --prompts 1000 --prompt-tokens 60 "
               "--max-tokens 40 --set run.threads=1");
  INFO(printable(shown));
  CHECK_THAT(shown,
             ContainsSubstring("\r\033[Kmeasuring: ") && ContainsSubstring("/40,000 tokens, "));
}

TEST_CASE("a terminal shows what the self-test is at", "[long]") {
  const Folder folder;
  const std::string shown = shown_by("doctor --self-test --folder " + (folder / ""));
  INFO(printable(shown));
  CHECK_THAT(shown, ContainsSubstring("\r\033[Kself-test: "));
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
