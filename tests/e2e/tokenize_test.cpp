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
#include "support/json.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace strata::test {
namespace {

/// Runs the program in the folder, after `before`.
Outcome strata_in(const ScratchFolder& folder, const std::string& arguments,
                  const std::string& before = "") {
  return run(Folder(),
             "cd " + folder.file(".") + " && " + before + strata_program() + " " + arguments);
}

std::string train_on(const std::string& data) {
  return "train " + configs_folder() +
         "/tiny-cpu.json --output run --set run.steps=1 --set optimizer.warmup_steps=0 "
         "--set data.synthetic=false --set data.train=" +
         data;
}

}  // namespace

TEST_CASE("tokenize that a signal ends exits with 128 + N and leaves no temporary file") {
  const ScratchFolder folder;
  // Zeros that take no room on the disk, and would keep the program busy for many minutes.
  fs::resize_file(folder.write("long.txt", ""), std::uintmax_t{1} << 40);
  const std::string out = folder.write("out.bin", "STRTOK\r\nearlier");
  const int signal = GENERATE(SIGINT, SIGTERM);
  const std::string text = folder.file("long.txt");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::execl(strata_program().c_str(), strata_program().c_str(), "tokenize", "--format", "text",
            text.c_str(), "--output", out.c_str(), nullptr);
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
  folder.write("d.csv", "text\none\n");
  const Outcome named = strata_in(folder, "tokenize d.csv --output out.bin");
  CHECK(named.code == 2);
  CHECK_THAT(named.text, ContainsSubstring("d.csv: is a table") &&
                             ContainsSubstring("d.csv | strata tokenize - --format jsonl"));
  CHECK_THAT(named.text, ContainsSubstring("--format text"));
  CHECK(strata_in(folder, "tokenize --format text d.csv --output out.bin").code == 0);
}

TEST_CASE("tokenize leaves out as many bad records as it is told to, and names each") {
  const ScratchFolder folder;
  folder.write("d.json", "[{\"text\": \"one\"}, {\"text\": 2}, {\"text\": \"three\"}]");
  const Outcome refused = strata_in(folder, "tokenize d.json --output out.bin");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("d.json: record 2: the field text is a number"));
  const Outcome made = strata_in(folder, "tokenize d.json --output out.bin --skip-bad 1");
  CHECK(made.code == 0);
  CHECK_THAT(made.text,
             ContainsSubstring("left out d.json: record 2: the field text is a number") &&
                 ContainsSubstring("out.bin: 2 documents, 10 tokens"));
}

TEST_CASE("a tokenizer that is trained tokenizes, and its folder is not replaced unasked") {
  const ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "some words, other words and " + std::to_string(i) + "\n";
  folder.write("texts/a.txt", text);
  const std::string train = "tokenizer train texts --vocab-size 300 --output words --threads ";
  const Outcome made = strata_in(folder, train + "1");
  INFO(made.text);
  REQUIRE(made.code == 0);
  const std::string json = read_file(folder.file("words/tokenizer.json"));
  CHECK(parse_json<nlohmann::json>(json)["model"]["vocab"].size() == 300);
  const Outcome again = strata_in(folder, train + "2");
  CHECK(again.code == 2);
  CHECK_THAT(again.text, ContainsSubstring("--overwrite"));
  CHECK(strata_in(folder, train + "2 --overwrite").code == 0);
  CHECK(read_file(folder.file("words/tokenizer.json")) == json);
  CHECK(strata_in(folder, "tokenize texts --tokenizer words --output a.bin").code == 0);
  CHECK(fs::file_size(folder.file("a.bin")) < text.size());  // 2 bytes a token
  folder.write("words/model.safetensors", "not a tokenizer's");
  CHECK(strata_in(folder, train + "2 --overwrite").code == 2);
}

TEST_CASE("ids that are no token are refused with the id and the size of the vocabulary") {
  const ScratchFolder folder;
  folder.write("texts/a.txt", "some words and other words");
  REQUIRE(strata_in(folder, "tokenizer train texts --vocab-size 260 --output words").code == 0);
  folder.write("ids.txt", "72 105 260 9");
  const Outcome refused = strata_in(folder, "tokenizer decode words ids.txt");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("ids.txt: id 260, the 3. of them") &&
                               ContainsSubstring("which has 260 ids"));
  folder.write("ids.txt", "72 105 259");
  CHECK(strata_in(folder, "tokenizer decode words ids.txt").code == 0);
}

TEST_CASE("a member of records is named in vain where all is text") {
  const ScratchFolder folder;
  folder.write("texts/a.txt", "some words");
  for (const char* command :
       {"tokenize texts --output a.bin", "tokenizer train texts --vocab-size 258 --output b"}) {
    const Outcome refused =
        strata_in(folder, std::string(command) + " --format text --text-field body");
    CHECK(refused.code == 2);
    CHECK_THAT(refused.text, ContainsSubstring("--text-field: names a member of records"));
  }
}

TEST_CASE("tokenize reads records from files and from standard input") {
  const ScratchFolder folder;
  folder.write("a.jsonl", "{\"text\": \"one\"}\n\n{\"id\": [1], \"text\": \"two\"}");
  const auto from_pipe = [&](const std::string& arguments) {
    return run(Folder(), "cd " + folder.file(".") + " && { cat a.jsonl | " + strata_program() +
                             " " + arguments + "; }");
  };
  const Outcome made = strata_in(folder, "tokenize a.jsonl --output a.bin --threads 2");
  INFO(made.text);
  CHECK(made.code == 0);
  CHECK_THAT(made.text, ContainsSubstring("a.bin: 2 documents, 8 tokens"));
  CHECK(from_pipe("tokenize - --output b.bin").code == 0);
  CHECK(read_file(folder.file("a.bin")) == read_file(folder.file("b.bin")));
  const Outcome bad = from_pipe("tokenize - --text-field body --output c.bin");
  CHECK(bad.code == 2);
  CHECK_THAT(bad.text, ContainsSubstring("standard input:1: has no field body; it has text"));
  CHECK(folder.entries() == 3);
}

TEST_CASE("tokenize cuts its output into shards, and train reads them as it reads one file") {
  const ScratchFolder folder;
  std::string records;
  for (int i = 0; i < 40; ++i) {
    const std::string text = "document " + std::to_string(i * 7919) + std::string(80, 'a');
    records += "{\"text\": \"" + text + "\"}\n";
  }
  folder.write("text.jsonl", records);
  const Outcome whole = strata_in(folder, "tokenize text.jsonl --output all.bin");
  CHECK(whole.code == 0);
  const Outcome cut = strata_in(folder, "tokenize text.jsonl --shard-tokens 1500 --output web.bin");
  INFO(cut.text);
  CHECK(cut.code == 0);
  CHECK_THAT(cut.text, ContainsSubstring("web-00000.bin to web-00002.bin: 40 documents"));
  CHECK(folder.entries() == 5);
  // In file order the first step's 512 tokens are the first ones of either.
  const auto trained_losses = [&](const std::string& data) {
    fs::remove_all(folder.file("run"));
    const Outcome trained = strata_in(folder, train_on(data) + " --set data.shuffle=false");
    INFO(trained.text);
    CHECK(trained.code == 0);
    return losses(folder.file("run"));
  };
  const std::vector<double> from_shards = trained_losses("'web-*.bin'");
  CHECK(from_shards.size() == 1);
  CHECK(from_shards == trained_losses("all.bin"));
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
  refused("llmc --set data.dtype=u16", "llm.c, and");
  refused("bytes.bin --set model.vocab_size=256", "model.vocab_size is 256");
  refused("a.txt --set data.dtype=u16", "strata tokenize");
  CHECK(strata_in(folder, train_on("u32 --set data.dtype=u32")).code == 0);
}

}  // namespace strata::test
