// Tests `tokenize`, and what `train` says of token files, as users start them: exit codes, messages
// and the files that are there afterwards.

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "e2e/program.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata::test {
namespace {

/// Runs the program in the folder, after `before`.
Outcome strata_in(const ScratchFolder& folder, const std::string& arguments,
                  const std::string& before = "") {
  return run(Folder(), "cd " + folder.file(".") + " && " + before + STRATA_PROGRAM " " + arguments);
}

std::string train_on(const std::string& data) {
  return "train " STRATA_CONFIGS
         "/tiny-cpu.json --output run --set run.steps=1 --set optimizer.warmup_steps=0 "
         "--set data.synthetic=false --set data.train=" +
         data;
}

}  // namespace

TEST_CASE("tokenize that a signal ends exits with 128 + N and leaves no temporary file") {
  const ScratchFolder folder;
  // Zeros without end that take no room on the disk; they keep the program busy for seconds.
  fs::resize_file(folder.write("long.txt", ""), std::uintmax_t{8} << 30);
  const std::string out = folder.write("out.bin", "STRTOK\r\nearlier");
  const int signal = GENERATE(SIGINT, SIGTERM);
  const std::string text = folder.file("long.txt");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::execl(STRATA_PROGRAM, STRATA_PROGRAM, "tokenize", "--as-text", text.c_str(), "--output",
            out.c_str(), nullptr);
    ::_exit(99);
  }
  while (folder.entries() < 3 && ::waitpid(child, nullptr, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  REQUIRE(folder.entries() == 3);  // the temporary file is there
  REQUIRE(::kill(child, signal) == 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 128 + signal);
  CHECK(folder.entries() == 2);
  CHECK(read_file(out) == "STRTOK\r\nearlier");
}

TEST_CASE("tokenize that finds no room exits with 1 and leaves the earlier file alone") {
  const ScratchFolder folder;
  folder.write("long.txt", std::string(1 << 20, 'a'));
  folder.write("out.bin", "STRTOK\r\nearlier");
  const Outcome full =
      strata_in(folder, "tokenize long.txt --output out.bin", "ulimit -f 64 && exec ");
  INFO(full.text);
  CHECK(full.code == 1);
  CHECK_THAT(full.text, ContainsSubstring("out.bin: cannot be written: File too large"));
  CHECK(folder.entries() == 2);
  CHECK(read_file(folder.file("out.bin")) == "STRTOK\r\nearlier");
}

TEST_CASE("tokenize says what it left out of a folder, and refuses what was named") {
  const ScratchFolder folder;
  folder.write("texts/a.txt", "text");
  folder.write("texts/b.txt", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  folder.write("texts/c.jsonl", "{\"text\": \"one\"}\n");
  const Outcome walked = strata_in(folder, "tokenize texts --output out.bin");
  CHECK(walked.code == 0);
  CHECK_THAT(walked.text, ContainsSubstring("1 .jsonl"));
  CHECK_THAT(walked.text, ContainsSubstring("texts/b.txt: is JSON"));
  const Outcome named = strata_in(folder, "tokenize texts/c.jsonl --output out.bin");
  CHECK(named.code == 2);
  CHECK_THAT(named.text, ContainsSubstring("texts/c.jsonl: is JSON"));
  CHECK_THAT(named.text, ContainsSubstring("--as-text"));
  CHECK(strata_in(folder, "tokenize --as-text texts/c.jsonl --output out.bin").code == 0);
}

TEST_CASE("train refuses token files of other programs, widths and tokenizers with exit code 2") {
  const ScratchFolder folder;
  std::vector<std::uint32_t> ids(4096);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::uint32_t>(i * 7 % 251);
  folder.write("u32", bytes_of(ids));
  ids[0] = 20240520;
  folder.write("llmc", bytes_of(ids));
  folder.write("a.txt", std::string(4096, 'a'));
  REQUIRE(strata_in(folder, "tokenize a.txt --output bytes.bin").code == 0);
  const auto refused = [&](const std::string& data, const char* hint) {
    const Outcome outcome = strata_in(folder, train_on(data));
    INFO(outcome.text);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.text, ContainsSubstring(hint));
  };
  refused("u32 --set data.dtype=u16", "data.dtype to \"u32\"");
  refused("llmc --set data.dtype=u16", "llm.c");
  refused("bytes.bin --set model.vocab_size=256", "model.vocab_size is 256");
  refused("a.txt --set data.dtype=u16", "strata tokenize");
  CHECK(strata_in(folder, train_on("u32 --set data.dtype=u32")).code == 0);
}

}  // namespace strata::test
