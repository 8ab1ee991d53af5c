// What the program tells shells and `man` of itself: completion by a real bash, and pages that
// programs which know roff find nothing wrong with.

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "e2e/program.h"
#include "support/catch.h"

namespace strata::test {

namespace {

using Replies = std::set<std::string>;

/// A real bash that has loaded the completion, in a folder with a few files.
class Bash {
 public:
  explicit Bash(const Folder& folder) : folder_(folder) {
    const Outcome script = strata(folder, "completions bash");
    REQUIRE(script.code == 0);
    std::ofstream(folder / "strata.bash") << script.text;
    fs::create_directories(folder / "here/runs");
    for (const char* name : {"here/run.json", "here/train.bin"}) std::ofstream(folder / name) << 1;
  }
  /// Returns what bash offers for the last of `words`, which it has split as it does.
  [[nodiscard]] Replies complete(const std::vector<std::string>& words) const {
    std::ofstream script(folder_ / "ask.sh");
    script << "set -u\ncd here\nsource ../strata.bash\nCOMP_WORDBREAKS=$' \\t\\n\"\\'><=;|&(:'\n"
           << "COMP_WORDS=(" << strata_program();
    for (const std::string& word : words) script << " '" << word << "'";
    script << ")\nCOMP_CWORD=" << words.size()
           << "\n_strata\nfor reply in \"${COMPREPLY[@]}\"; do echo \"$reply\"; done\n";
    script.close();
    const Outcome asked =
        run(folder_, "cd " + (folder_ / "") + " && bash --norc --noprofile ask.sh");
    INFO(asked.text);
    REQUIRE(asked.code == 0);
    Replies replies;
    std::istringstream lines(asked.text);
    for (std::string line; std::getline(lines, line);) replies.insert(line);
    return replies;
  }

 private:
  const Folder& folder_;
};

bool has(const Replies& replies, const std::string& reply) { return replies.count(reply) != 0; }

bool installed(const Folder& folder, const std::string& program) {
  return run(folder, "command -v " + program).code == 0;
}

}  // namespace

TEST_CASE("bash completes commands, options, their words, keys of the config and files") {
  const Folder folder;
  const Bash bash(folder);
  CHECK(bash.complete({"tr"}) == Replies{"train"});
  CHECK(has(bash.complete({""}), "config-schema"));
  CHECK(bash.complete({"--v"}) == Replies{"--version"});
  CHECK(bash.complete({"train", "--over"}) == Replies{"--overwrite"});
  CHECK(bash.complete({"plan", "--over"}).empty());
  CHECK(bash.complete({"train", "ru"}) == Replies{"run.json", "runs"});
  CHECK(bash.complete({"train", "run.json", "--output", "ru"}) == Replies{"runs"});
  CHECK(bash.complete({"train", "run.json", "--resume", "a"}) == Replies{"auto"});
  CHECK(bash.complete({"export", "--dtype", ""}) == Replies{"bf16", "f32", "q8_0"});
  CHECK(bash.complete({"export", "--dtype", "=", "b"}) == Replies{"bf16"});
  CHECK(bash.complete({"completions", ""}) == Replies{"bash", "fish", "zsh"});
  CHECK(bash.complete({"man", "token"}) == Replies{"tokenize", "tokenizer"});
  CHECK(bash.complete({"train", "run.json", "--allow", "data.pack"}) == Replies{"data.packing"});
}

TEST_CASE("bash completes the commands of a command") {
  const Folder folder;
  const Bash bash(folder);
  CHECK(bash.complete({"tokenizer", ""}) == Replies{"add", "decode", "encode", "inspect", "train"});
  CHECK(bash.complete({"tokenizer", "train", "--voc"}) == Replies{"--vocab-size"});
  CHECK(bash.complete({"tokenizer", "train", "tra"}) == Replies{"train.bin"});
}

TEST_CASE("bash completes --set, whose words it splits itself") {
  const Folder folder;
  const Bash bash(folder);
  CHECK(bash.complete({"train", "--set", "optimizer.tim"}) == Replies{"optimizer.timing="});
  CHECK(bash.complete({"train", "--set", "optimizer.timing", "="}) ==
        Replies{"before_use", "on_arrival", "speculative"});
  CHECK(bash.complete({"train", "--set", "optimizer.timing", "=", "on"}) == Replies{"on_arrival"});
  CHECK(bash.complete({"train", "--set", "=", "optimizer.timing", "=", "on"}) ==
        Replies{"on_arrival"});
  CHECK(bash.complete({"train", "--set", "=", "optimizer.tim"}) == Replies{"optimizer.timing="});
  CHECK(bash.complete({"train", "--set", "data.packing", "=", "t"}) == Replies{"true"});
  CHECK(bash.complete({"train", "--set", "data.train", "=", "tr"}) == Replies{"train.bin"});
  CHECK(bash.complete({"train", "--set", "run.steps", "="}).empty());
  CHECK(bash.complete({"train", "--set", "run.steps", "=", "9", "--set", "run.see"}) ==
        Replies{"run.seed="});
}

TEST_CASE("shells take their completion for a script without faults") {
  const Folder folder;
  int checked = 0;
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    if (!installed(folder, shell)) {
      WARN("skipped: there is no " << shell);
      continue;
    }
    ++checked;
    const Outcome script = strata(folder, "completions " + shell);
    REQUIRE(script.code == 0);
    const std::string file = folder / ("completion." + shell);
    std::ofstream(file) << script.text;
    const Outcome read = run(folder, shell + " -n " + file);
    INFO(shell << ": " << read.text);
    CHECK(read.code == 0);
    CHECK(read.text.empty());
  }
  CHECK(checked >= 1);  // bash runs the tests' own commands
}

TEST_CASE("fish completes by what the program prints for it") {
  const Folder folder;
  if (!installed(folder, "fish")) {
    WARN("skipped: there is no fish");
    return;
  }
  const Outcome script = strata(folder, "completions fish");
  std::ofstream(folder / "strata.fish") << script.text;
  const std::string programs = fs::path(strata_program()).parent_path();
  const auto complete = [&](const std::string& line) {
    return run(folder, "HOME=" + (folder / "") + " PATH=" + programs + ":$PATH " +
                           "fish --no-config -c 'source " + (folder / "strata.fish") +
                           "; complete -C \"" + line + "\"'")
        .text;
  };
  CHECK(complete("strata tr").starts_with("train\tTrain a model"));
  CHECK(complete("strata train --over").starts_with("--overwrite\t"));
  CHECK(complete("strata export --dtype b").starts_with("bf16\t"));
  CHECK(complete("strata train --set optimizer.tim").starts_with("optimizer.timing=\t"));
  CHECK(complete("strata train --set optimizer.timing=on")
            .starts_with("optimizer.timing=on_arrival"));
  CHECK(complete("strata tokenizer tr").starts_with("train\tMake a tokenizer"));
  CHECK(complete("strata tokenizer train --voc").starts_with("--vocab-size\t"));
}

TEST_CASE("zsh completes by what the program answers") {
  const Folder folder;
  if (!installed(folder, "zsh")) {
    WARN("skipped: there is no zsh");
    return;
  }
  // What zsh gives its completions, and what they call, but for the terminal.
  std::ofstream(folder / "ask.zsh")
      << "setopt extendedglob\ncompdef() {}\n_describe() { print -rl -- $whole OPEN $open }\n"
      << "compset() { print AT $2 }\n_files() { print FILES $* }\n"
      << "source <(" << strata_program() << " completions zsh)\n"
      << "words=(" << strata_program() << " \"$@\") CURRENT=$(( $# + 1 )) PREFIX=$words[-1]\n"
      << "_strata\n";
  const auto complete = [&](const std::string& words) {
    return run(folder, "zsh -f " + (folder / "ask.zsh") + " " + words).text;
  };
  CHECK_THAT(complete("tr"), ContainsSubstring("train:Train a model\n"));
  CHECK_THAT(complete("export --dtype=b"), ContainsSubstring("--dtype=bf16:of the weights"));
  CHECK_THAT(complete("train --set optimizer.tim"), ContainsSubstring("\noptimizer.timing=:"));
  CHECK_THAT(complete("train --set=data.train=tr"), ContainsSubstring("AT 17\nFILES\n"));
  CHECK_THAT(complete("train --resume r"),
             ContainsSubstring("auto:go on from") && ContainsSubstring("OPEN\nAT 0\nFILES -/\n"));
}

TEST_CASE("shells are answered whatever is typed, by a command that is not shown") {
  const Folder folder;
  for (const std::string words :
       {"nonsense ''", "train --nonsense=", "train --set nonsense=", "tokenizer nonsense --x ''",
        "$(printf '\\377') ''", "train --set $(printf '=\\377')"}) {
    const Outcome answer = strata(folder, "complete -- " + words);
    INFO(words << ": " << answer.text);
    CHECK(answer.code == 0);
    CHECK(answer.text.empty());
  }
  CHECK(strata(folder, "complete").text == strata(folder, "complete -- ''").text);
  CHECK(strata(folder, "--help").text.find("  complete ") == std::string::npos);
  CHECK(strata(folder, "man complete").code == 2);
}

TEST_CASE("the manual has a page for each command, which man shows without complaint") {
  const Folder folder;
  const Outcome written = strata(folder, "man --output " + (folder / "pages"));
  INFO(written.text);
  REQUIRE(written.code == 0);
  CHECK(read_file(folder / "pages/strata-train.1") == strata(folder, "man train").text);
  CHECK(read_file(folder / "pages/strata.1") == strata(folder, "man").text);
  const std::string keys = read_file(folder / "pages/strata-config.5");
  CHECK_THAT(keys, ContainsSubstring("optimizer.grad_clip\\fR (number or null, default null)"));
  const Outcome other = strata(folder, "man trian");
  CHECK(other.code == 2);
  CHECK_THAT(other.text, ContainsSubstring("there is no page of \"trian\""));

  // groff's own warnings; and mandoc's, but for the date that pages leave out to be repeatable.
  std::vector<std::string> checkers;
  for (const std::string checker :
       {"groff -man -Tascii -ww -z", "mandoc -T lint -W warning,stop"}) {
    const std::string program = checker.substr(0, checker.find(' '));
    if (installed(folder, program)) {
      checkers.push_back(checker);
    } else {
      WARN("skipped: there is no " << program);
    }
  }
  std::size_t pages = 0;
  for (const fs::directory_entry& page : fs::directory_iterator(folder / "pages")) {
    ++pages;
    INFO(page.path());
    for (const std::string& checker : checkers) {
      const Outcome checked =
          run(folder, checker + " " + page.path().string() + " 2>&1 | grep -v 'missing date'");
      CHECK(checked.text.empty());
    }
  }
  CHECK(pages > 15);
  CHECK(read_file(folder / "pages/strata.1").find("strata\\-evaluate (1)") != std::string::npos);
}

}  // namespace strata::test
