// Tests how the program is told what to do: arguments, help, and what it refuses with which exit
// code.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "e2e/lines.h"
#include "e2e/program.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"

namespace strata::test {

TEST_CASE("a program without standard streams says nothing into the files that it opens") {
  const Folder folder;
  for (const std::string closed : {"<&-", ">&-", "2>&-", "<&- >&- 2>&-"}) {
    INFO(closed);
    fs::remove_all(folder / "run");
    const Outcome done = run(folder, "sh -c 'exec " + strata_program() + " " +
                                         train_tiny(folder, "run", "") + " " + closed + "'");
    CHECK(done.code == 0);
    std::vector<std::string> events;
    REQUIRE_NOTHROW([&] {
      for (const nlohmann::json& line : metrics(folder / "run")) events.push_back(line["event"]);
    }());
    CHECK(events ==
          std::vector<std::string>{"start", "step", "step", "step", "step", "checkpoint", "end"});
  }
  const Outcome unread = run(folder, "sh -c 'exec " + strata_program() + " --version >&-'");
  CHECK(unread.code == 1);
  CHECK_THAT(unread.text, ContainsSubstring("standard output could not be written"));
}

TEST_CASE("a backend that was not built is refused by the option that chose it") {
  const Folder folder;
  if (strata(folder, "--version").text.find("cuda") != std::string::npos) {
    WARN("skipped: this program has all backends");
    return;
  }
  const std::string tiny = configs_folder() + "/tiny-cpu.json --set run.backend=cuda ";
  const std::string model = goldens_folder() + "/mha";
  for (const auto& [option, command] : std::vector<std::pair<std::string, std::string>>{
           {"run.backend", "train " + tiny + "--output " + (folder / "run")},
           {"run.backend", "bench " + tiny},
           {"run.backend", "bench " + tiny + "--generate --prompt-tokens 8 --max-tokens 8"},
           {"--backend", "generate " + model + " --backend cuda --prompt text"},
           {"--backend", "chat " + model + " --backend cuda"},
           {"--backend", "evaluate " + model + " --backend cuda --input text"}}) {
    INFO(command);
    const Outcome refused = strata(folder, command);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.text, ContainsSubstring(option + ": this program was built without"));
  }
  CHECK(!fs::exists(folder / "run"));
}

TEST_CASE("a run and a benchmark name the program that made them") {
  const Folder folder;
  const Outcome version = strata(folder, "--version");
  INFO(version.text);
  REQUIRE(version.code == 0);
  std::istringstream words(version.text);
  std::string name, number, word, commit;
  words >> name >> number >> word >> commit;
  CHECK(name == "strata");
  CHECK(word == "commit");
  CHECK_THAT(version.text, ContainsSubstring("backends           cpu"));
  const std::string bench = "bench " + configs_folder() +
                            "/tiny-cpu.json --set run.steps=1 --set optimizer.warmup_steps=0 "
                            "--json " +
                            (folder / "bench.json");
  REQUIRE(strata(folder, bench).code == 0);
  const Outcome trained = strata(folder, train_tiny(folder, "run", ""));
  REQUIRE(trained.code == 0);
  CHECK_THAT(trained.text, ContainsSubstring("strata " + number + " (" + commit + ")"));
  for (const nlohmann::json& made : {parse_json<nlohmann::json>(read_file(folder / "bench.json")),
                                     metrics(folder / "run").front()}) {
    CHECK(made["version"] == number);
    CHECK(made["commit"] == commit);
  }
}

TEST_CASE("a misspelt key is refused with its path and the key that was meant") {
  const Folder folder;
  const Outcome refused = strata(folder, train_tiny(folder, "run", "--set optimizer.lrr=1"));
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("optimizer.lrr"));
  CHECK_THAT(refused.text, ContainsSubstring("lr"));
  CHECK(!fs::exists(folder / "run"));
}

TEST_CASE("arguments that are not understood are told what was probably meant") {
  const Folder folder;
  const std::string train = "train " + configs_folder() + "/tiny-cpu.json ";
  struct Case {
    std::string arguments;
    std::string expected;
  };
  for (const Case& c :
       std::vector<Case>{{"trian x", "there is no command trian; did you mean strata train?"},
                         {"eval x", "there is no command eval; did you mean strata evaluate?"},
                         {"help", "did you mean strata --help?"},
                         {"version", "did you mean strata --version?"},
                         {"tokenizer inspct x", "did you mean strata tokenizer inspect?"},
                         {"--verson", "did you mean strata --version?"},
                         {"foobarbaz", "there is no command foobarbaz; these are: train, plan,"},
                         {train + "--learning-rate=1", "mean --set optimizer.lr=VALUE?"},
                         {train + "--lr 1", "mean --set optimizer.lr=VALUE?"},
                         {train + "--epochs=2", "mean --set run.epochs=2?"},
                         {"plan x --host-memory 64", "is 64 bytes; write the unit, like"},
                         {"--hlep", "did you mean strata --help?"},
                         {train + "--set run.steps 5", "--set run.steps=5?"},
                         {train + "--set run.steps=5 run.seed=2", "did you mean --set run.seed=2?"},
                         {train + "run.seed=2", "did you mean --set run.seed=2?"},
                         {train + "--ouptut x", "did you mean --output?"},
                         {train + "--run.steps=4", "mean --set run.steps=4?"},
                         {train + "--set run.steps==4", "mean run.steps=4?"},
                         {"train $'\\xff'", "argument 2 is not valid UTF-8"}}) {
    CAPTURE(c.arguments);
    const Outcome refused = run(folder, "bash -c \"" + strata_program() + " " + c.arguments + "\"");
    CHECK(refused.code == 2);
    CHECK_THAT(refused.text, ContainsSubstring(c.expected));
  }
}

TEST_CASE("the help of train fits two screens, and that of a key is asked for by its name") {
  const Folder folder;
  const auto lines_of = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  const Outcome train = strata(folder, "train --help");
  CHECK(train.code == 0);
  CHECK(lines_of(train.text) <= 48);  // of 24 lines each
  CHECK_THAT(train.text, ContainsSubstring("strata config-help"));
  const Outcome all = strata(folder, "config-help");
  const Outcome key = strata(folder, "config-help optimizer.lr");
  CHECK(key.code == 0);
  CHECK(key.text.starts_with("optimizer.lr "));
  CHECK_THAT(all.text, ContainsSubstring(key.text));
  CHECK(key.text.find("optimizer.lr_schedule") == std::string::npos);
  const Outcome section = strata(folder, "config-help optimizer");
  CHECK_THAT(section.text,
             ContainsSubstring(key.text) && ContainsSubstring("optimizer.lr_schedule "));
  CHECK_THAT(all.text, ContainsSubstring(section.text));
  CHECK(strata(folder, "config-help num_train_epochs").text.starts_with("run.epochs "));
  const Outcome wrong = strata(folder, "config-help optimizer.lrr");
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.text, ContainsSubstring("did you mean optimizer.lr?"));
}

TEST_CASE("docs/models.md has the families that strata models lists, each with its refusals") {
  const Folder folder;
  const Outcome table = strata(folder, "models --markdown");
  CHECK(table.code == 0);
  std::ostringstream page;
  page << std::ifstream(source_folder() + "/docs/models.md").rdbuf();
  CHECK_THAT(page.str(), ContainsSubstring(table.text));
  const std::string all = strata(folder, "models").text;
  for (const std::string family : {"llama ", "SmolLM3ForCausalLM", "in llama.cpp: seed_oss"}) {
    CHECK_THAT(all, ContainsSubstring(family));
  }
  const std::string granite = strata(folder, "models granite").text;
  CHECK_THAT(granite, ContainsSubstring("\n  num_experts: 1; "));
  CHECK_THAT(granite, !ContainsSubstring("\n  logits_scaling: "));
  CHECK(strata(folder, "models GraniteForCausalLM").text == granite);
  CHECK_THAT(strata(folder, "models qwen3").text, ContainsSubstring("\n  logits_scaling: 1; "));
  const Outcome wrong = strata(folder, "models mamba");
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.text, ContainsSubstring("does not read the family mamba; strata models lists"));
}

TEST_CASE("an assignment that a later one replaces is said") {
  const Folder folder;
  const std::string plan =
      "plan " + configs_folder() + "/tiny-cpu.json --set run.steps=7 --set run.steps=8";
  const Outcome said = strata(folder, plan);
  CHECK(said.code == 0);
  CHECK_THAT(said.text,
             ContainsSubstring("--set run.steps=7 is replaced by the later --set run.steps=8"));
  // Standard output has results alone.
  CHECK(parse_json<nlohmann::json>(printed(folder, plan + " --json -"))["steps"] == 8);
}

TEST_CASE("help keeps to the width that COLUMNS gives") {
  const Folder folder;
  const Outcome help = run(folder, "env COLUMNS=80 " + strata_program() + " train --help");
  CHECK(help.code == 0);
  CHECK_THAT(help.text, ContainsSubstring("--output DIR"));
  std::istringstream lines(help.text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
}

TEST_CASE("bad input exits with 2 and names the file") {
  const Folder folder;
  CHECK(strata(folder, "train " + (folder / "none.json")).code == 2);
  const Outcome missing = strata(folder, train_tiny(folder, "run",
                                                    "--set data.synthetic=false --set data.train=" +
                                                        (folder / "missing.bin")));
  CHECK(missing.code == 2);
  CHECK_THAT(missing.text, ContainsSubstring("missing.bin"));
}

TEST_CASE("a memory limit that does not hold the run exits with 3 before anything is taken") {
  const Folder folder;
  for (const std::string limit : {"memory.device_limit=1MiB", "memory.host_limit=1MiB"}) {
    const Outcome refused = strata(folder, train_wide(folder, "run", "--set " + limit));
    CHECK(refused.code == 3);
    CHECK_THAT(refused.text, ContainsSubstring(limit.substr(0, limit.find('='))));
    CHECK_THAT(refused.text, ContainsSubstring(" saves "));
    CHECK_THAT(refused.text, !ContainsSubstring("state.weight"));  // not the whole plan
  }
}

}  // namespace strata::test
