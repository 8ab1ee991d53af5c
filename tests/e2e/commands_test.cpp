// Tests the program as users start it: commands, run folders, exit codes and ranks, by its files
// and its output alone.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "e2e/lines.h"
#include "e2e/program.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace strata::test {

TEST_CASE("train writes its config, its metrics and a trace into the run folder") {
  const Folder folder;
  const Outcome done = strata(folder, train_tiny(folder, "run", "--set run.trace_step=2"));
  INFO(done.text);
  REQUIRE(done.code == 0);
  const std::vector<nlohmann::json> lines = metrics(folder / "run");
  std::vector<std::string> events;
  for (const nlohmann::json& line : lines) events.push_back(line["event"]);
  REQUIRE(events == std::vector<std::string>{"start", "step", "step", "step", "trace", "step",
                                             "checkpoint", "end"});
  for (const std::size_t at : {1, 2, 3, 5}) {
    const nlohmann::json& line = lines[at];
    CHECK(line["step"] == (at < 4 ? at : 4));
    for (const char* key : {"loss", "grad_norm", "lr", "tokens", "step_s", "tokens_per_s",
                            "host_busy_s", "activations_in_bytes", "out_bytes"}) {
      CHECK(line[key].is_number());
    }
    CHECK(line["weights_in_bytes"] > 0);
    CHECK(line["mfu"].is_null());
  }
  CHECK(lines[4]["step"] == 2);
  CHECK(lines[4]["compute_busy_s"] > 0);
  CHECK(lines[4]["host_exposed_s"] >= 0);
  CHECK(lines[4]["updates_busy_s"] > 0);
  CHECK(lines[4]["updates_hidden"] >= 0);
  CHECK(lines[4]["updates_hidden"] <= 1);
  CHECK(lines.back()["first_step_begun_s"] >= lines.back()["startup_weights_s"]);
  CHECK(lines.back()["first_step_ended_s"] >= lines.back()["first_step_begun_s"]);
  const nlohmann::json trace = parse_json<nlohmann::json>(read_file(folder / "run/trace.json"));
  CHECK(trace["traceEvents"].size() > 100);
  CHECK_THAT(done.text, ContainsSubstring("trace of steps 2 and 3"));
}

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

TEST_CASE("a run as long as so many epochs says its steps, and so does its plan") {
  const Folder folder;
  const std::string data = tokenize_text(folder);
  REQUIRE_FALSE(data.empty());
  std::ofstream(folder / "run.json")
      << R"({"run": {"backend": "cpu", "epochs": 2, "output": ")" << (folder / "run") << R"("},
 "model": {"vocab_size": 257, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
           "num_attention_heads": 4, "max_position_embeddings": 64},
 "data": {"sequence_length": 64, "train": ")"
      << (folder / "train.bin") << R"("},
 "schedule": {"rows": 8}})";
  const Outcome trained = strata(folder, "train " + (folder / "run.json"));
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  const auto steps = static_cast<std::int64_t>(losses(folder / "run").size());
  const nlohmann::json resolved = parse_json<nlohmann::json>(read_file(folder / "run/config.json"));
  CHECK(resolved["run"]["steps"] == steps);
  CHECK(resolved["run"]["epochs"].is_null());
  const std::string said = std::to_string(steps) + " steps = 2.";
  CHECK_THAT(trained.text, ContainsSubstring("tokens, " + said));
  const Outcome planned = strata(folder, "plan " + (folder / "run.json"));
  CHECK(planned.code == 0);
  CHECK_THAT(planned.text, ContainsSubstring("length: " + said));
  fs::remove(folder / "train.bin");
  const Outcome elsewhere = strata(folder, "plan " + (folder / "run.json"));
  CHECK(elsewhere.code == 0);
  CHECK_THAT(elsewhere.text,
             ContainsSubstring("length: 2 epochs, whose steps are not known here") &&
                 ContainsSubstring("train.bin"));
  const Outcome guessed = strata(folder, "train " + (folder / "run.json") + " --learning-rate 1");
  CHECK(guessed.code == 2);
  CHECK_THAT(guessed.text, ContainsSubstring("did you mean --set optimizer.lr=VALUE?"));
}

TEST_CASE("the resolved config repeats the run") {
  const Folder folder;
  REQUIRE(strata(folder, train_tiny(folder, "first", "")).code == 0);
  const Outcome again = strata(
      folder, "train " + (folder / "first/config.json") + " --output " + (folder / "second"));
  INFO(again.text);
  REQUIRE(again.code == 0);
  REQUIRE(losses(folder / "first").size() == 4);
  CHECK(losses(folder / "first") == losses(folder / "second"));
}

TEST_CASE("text is tokenized, trained on and validated") {
  const Folder folder;
  const std::string data = tokenize_text(folder);
  for (const std::string mask : {"false", "true"}) {
    const Outcome trained =
        strata(folder, train_tiny(folder, mask,
                                  data +
                                      " --set run.eval_every=2 --set run.steps=12 --set "
                                      "optimizer.lr=0.003 --set data.document_mask=" +
                                      mask));
    INFO(trained.text);
    REQUIRE(trained.code == 0);
    std::vector<double> validations;
    for (const nlohmann::json& line : metrics(folder / mask)) {
      if (line["event"] == "eval") validations.push_back(line["val_loss"]);
    }
    REQUIRE(validations.size() == 6);
    CHECK(validations.back() < validations.front() - 0.2);
    CHECK(validations.front() < std::log(257.0) + 0.5);
  }
}

TEST_CASE("a step without targets has no loss in the log, the metrics and the checkpoint") {
  const Folder folder;
  // Four rows of documents that end at once, which a mask leaves without a target, and four others.
  std::vector<std::uint16_t> tokens(257, 3);
  for (std::size_t i = 128; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::uint16_t>(4 + i % 9);
  std::ofstream(folder / "train.bin", std::ios::binary) << bytes_of(tokens);
  const Outcome trained =
      strata(folder, train_tiny(folder, "run",
                                "--set data.synthetic=false --set data.dtype=u16 --set "
                                "data.eos_token=3 --set data.document_mask=true --set "
                                "data.shuffle=false --set run.steps=3 --set run.log_every=1 --set "
                                "checkpoint.at_end=true --set data.train=" +
                                    (folder / "train.bin")));
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  std::vector<nlohmann::json> steps;
  for (const nlohmann::json& line : metrics(folder / "run")) {
    if (line["event"] == "step") steps.push_back(line);
  }
  REQUIRE(steps.size() == 3);
  for (const std::size_t without : {0, 2}) {
    CHECK(steps[without]["valid_tokens"] == 0);
    CHECK(steps[without]["loss"].is_null());
    CHECK(steps[without]["applied"] == false);
    CHECK(!steps[without].contains("nonfinite"));
  }
  CHECK(steps[1]["valid_tokens"] == 128);
  const double loss = steps[1]["loss"];
  CHECK(loss > 1);
  std::ostringstream said;
  said << ", loss " << std::fixed << std::setprecision(4) << loss << ';';
  CHECK_THAT(trained.text, ContainsSubstring(said.str()) &&
                               ContainsSubstring("         -          0  ") &&
                               !ContainsSubstring("0.0000"));
  const Outcome shown = strata(folder, "inspect " + (folder / "run") + " --json");
  INFO(shown.text);
  REQUIRE(shown.code == 0);
  const auto json = parse_json<nlohmann::json>(shown.text);
  CHECK(json.at("loss").is_null());
  CHECK(json.at("finite") == true);
}

TEST_CASE("masked steps tell targets and MFU without the attention that masks leave out") {
  const Folder folder;
  // Documents of 8 tokens in rows of 32: of 32 * 32 pairs 4 * 8 * 8 are left, a quarter.
  std::vector<std::uint16_t> tokens(1025);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::uint16_t>(i % 8 == 7 ? 3 : 4 + i % 50);
  }
  std::ofstream(folder / "train.bin", std::ios::binary) << bytes_of(tokens);
  const Outcome trained =
      strata(folder, train_tiny(folder, "run",
                                "--set data.synthetic=false --set data.dtype=u16 --set "
                                "data.eos_token=3 --set data.document_mask=true --set "
                                "hardware.peak_tflops=1 --set data.train=" +
                                    (folder / "train.bin")));
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  // Elements of products and of attention over a whole row, of the model of configs/tiny-cpu.json.
  constexpr double kProducts = 4 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 176) + 64 * 257;
  constexpr double kAttention = 4 * 64 * 32;
  int steps = 0;
  for (const nlohmann::json& line : metrics(folder / "run")) {
    if (line["event"] != "step") continue;
    ++steps;
    CHECK(line["valid_tokens"] == 128 - 16);
    CHECK(line["targets_per_s"].get<double>() ==
          Approx((128 - 16) / line["step_s"].get<double>()).epsilon(1e-9));
    CHECK(line["attended"] == 0.25);
    CHECK(line["mfu_attended"].get<double>() / line["mfu"].get<double>() ==
          Approx((kProducts + kAttention / 4) / (kProducts + kAttention)).epsilon(1e-9));
  }
  CHECK(steps == 4);
  CHECK_THAT(trained.text, ContainsSubstring("targets/s    MFU  attended"));
}

TEST_CASE("a benchmark measures 8 steps unless told, and its results say where they come from") {
  const Folder folder;
  const std::string bench = "bench " + configs_folder() + "/tiny-cpu.json " +
                            "--set data.sequence_length=32 --set run.threads=1 --json - ";
  const auto check_origin = [&](const nlohmann::json& json) {
    CHECK(json["config"]["data.sequence_length"] == 32);
    CHECK(json["config"]["model.hidden_size"] == 64);
    const nlohmann::json& machine = json["provenance"];
    CHECK(machine["commit"] == json["commit"]);
    CHECK(!machine["host"].get<std::string>().empty());
    const std::string date = machine["date"];  // 2026-11-25T10:00:00Z
    CHECK((date.size() == 20 && date[10] == 'T' && date.back() == 'Z'));
    CHECK_THAT(machine["command"].get<std::string>(), ContainsSubstring(" bench "));
    CHECK(machine.contains("gpus"));
    CHECK(machine.contains("driver"));
  };
  const auto told = parse_json<nlohmann::json>(printed(folder, bench + "--set run.steps=3"));
  CHECK(told["step_s_each"].size() == 3);
  // The config has 30 steps, which are those of a training.
  const auto json = parse_json<nlohmann::json>(printed(folder, bench));
  CHECK(json["step_s_each"].size() == 8);
  CHECK(json["config"]["run.steps"] == 8);
  CHECK(json["targets_per_s"].get<double>() ==
        Approx(json["tokens_per_s"].get<double>()).epsilon(1e-9));
  check_origin(json);
  check_origin(parse_json<nlohmann::json>(
      printed(folder, bench + "--generate --prompts 1 --prompt-tokens 4 --max-tokens 4")));
  const Outcome suite =
      strata(folder, "bench --suite " + configs_folder() + "/suites/tiny.json --json -");
  CHECK(suite.code == 2);
  CHECK_THAT(suite.text, ContainsSubstring("--json -: a suite writes its results"));
}

TEST_CASE("a trace moves no validation, whichever step it names", "[long]") {
  const Folder folder;
  const std::string data = tokenize_text(folder);
  const auto events = [&](const std::string& trace_step) {
    const Outcome done = strata(
        folder,
        train_tiny(folder, trace_step,
                   data +
                       " --set checkpoint.at_end=false --set run.steps=8 --set run.eval_every=3 " +
                       "--set run.trace_step=" + trace_step));
    INFO(done.text);
    REQUIRE(done.code == 0);
    CHECK(done.text.find("race:") == std::string::npos);
    CHECK(read_file(folder / (trace_step + "/trace.json")).find("evaluate") == std::string::npos);
    std::string text;
    for (const nlohmann::json& line : metrics(folder / trace_step)) {
      if (!line.contains("step")) continue;
      text += line["event"].get<std::string>() + std::to_string(line["step"].get<int>()) + " ";
    }
    return text;
  };
  // Between steps 3 and 4 there is a validation: 2 and 3 are traced.
  CHECK(events("3") == "step1 step2 step3 trace2 eval3 step4 step5 step6 eval6 step7 step8 eval8 ");
  CHECK(events("4") == "step1 step2 step3 eval3 step4 step5 trace4 step6 eval6 step7 step8 eval8 ");
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

TEST_CASE("a plan for programs is what the one for people says, and trains as it is") {
  const Folder folder;
  const std::string arguments = "tiny-cpu.json --set run.steps=3 --set optimizer.warmup_steps=1";
  const Outcome text = plan(folder, arguments);
  const Outcome printed = plan(folder, arguments + " --json -");
  INFO(printed.text);
  REQUIRE(printed.code == 0);
  const nlohmann::json json = parse_json<nlohmann::json>(printed.text);
  CHECK(json["steps"] == 3);
  CHECK(json["ranks"] == 1);
  CHECK(json["device_bytes"] > 0);
  CHECK(json["host_bytes"] > 0);
  const nlohmann::json& predicted = json["prediction"];
  const bool known = predicted.contains("step_s") && predicted["step_s"] > 0;
  CHECK((known || !predicted["unknown"].get<std::string>().empty()));
  const Outcome both = plan(folder, arguments + " --json " + (folder / "plan.json"));
  CHECK(both.text == text.text);
  CHECK(parse_json<nlohmann::json>(read_file(folder / "plan.json")) == json);
  std::ofstream(folder / "planned.json") << json["config"];
  const Outcome trained =
      strata(folder, "train " + (folder / "planned.json") + " --output " + (folder / "run"));
  INFO(trained.text);
  CHECK(trained.code == 0);
  CHECK(losses(folder / "run").size() == 3);
}

TEST_CASE("a plan says how long the run takes, where its steps and their time are known") {
  const Folder folder;
  const std::string run = "llama-7b.json --gpu H200 --host-memory 256GiB --set run.steps=10000";
  const Outcome text = plan(folder, run);
  const double step_s =
      parse_json<nlohmann::json>(plan(folder, run + " --json -").text)["prediction"]["step_s"];
  const auto at = text.text.find("predicted run: 10,000 steps in ");
  REQUIRE(at != std::string::npos);
  std::istringstream said(
      text.text.substr(at + std::string("predicted run: 10,000 steps in ").size()));
  int hours = 0;
  int minutes = 0;
  char unit = 0;
  said >> hours >> unit >> minutes;
  REQUIRE(unit == 'h');
  CHECK(hours * 3600 + minutes * 60 == Approx(10000 * step_s).margin(120));
  const Outcome unnamed =
      plan(folder, "llama-7b.json --gpu H200 --host-memory 256GiB --set run.epochs=2");
  CHECK(unnamed.code == 0);
  CHECK_THAT(unnamed.text,
             ContainsSubstring("predicted step: ") && !ContainsSubstring("predicted run"));
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
    const Outcome refused = strata(folder, train_tiny(folder, "run", "--set " + limit));
    CHECK(refused.code == 3);
    CHECK_THAT(refused.text, ContainsSubstring(limit.substr(0, limit.find('='))));
    CHECK_THAT(refused.text, ContainsSubstring(" saves "));
    CHECK_THAT(refused.text, !ContainsSubstring("state.weight"));  // not the whole plan
  }
}

TEST_CASE("host memory does not grow with the passes of a step beyond the plan", "[long]") {
  const Folder folder;
  const auto bytes = [&](const std::string& name, const std::string& passes) {
    const Outcome done = strata(
        folder,
        train_tiny(folder, name,
                   "--set run.steps=2 --set run.threads=2 --set model.num_hidden_layers=24 --set "
                   "data.sequence_length=16 --set schedule.rows=1 --set schedule.sub_batches=8 "
                   "--set schedule.passes=" +
                       passes));
    INFO(done.text);
    REQUIRE(done.code == 0);
    const std::vector<nlohmann::json> lines = metrics(folder / name);
    return std::pair<double, double>{lines.front()["host_planned_bytes"],
                                     lines.back()["host_peak_bytes"]};
  };
  const auto [few_planned, few_peak] = bytes("few", "2");
  const auto [many_planned, many_peak] = bytes("many", "24");
  constexpr double kNoise = 8 << 20;  // of the allocator, and of what the libraries load
  CHECK(many_peak - few_peak <= many_planned - few_planned + kNoise);
}

TEST_CASE("a run that is not finite any more exits with 4") {
  const Folder folder;
  for (const std::string timing : {"before_use", "on_arrival"}) {
    const Outcome failed =
        strata(folder, train_tiny(folder, timing,
                                  "--set optimizer.lr=1e38 --set run.steps=20 --set "
                                  "optimizer.grad_clip=null --set optimizer.timing=" +
                                      timing));
    INFO(failed.text);
    CHECK(failed.code == 4);
    CHECK_THAT(failed.text, ContainsSubstring("finite"));
  }
}

TEST_CASE("the log of a run ends with the error that ended it") {
  const Folder folder;
  const Outcome failed =
      strata(folder, train_tiny(folder, "run",
                                "--set optimizer.lr=1e38 --set run.steps=20 --set "
                                "optimizer.grad_clip=null"));
  REQUIRE(failed.code == 4);
  const std::string log = read_file(folder / "run/train.log");
  INFO(log);
  const std::size_t last_line = log.rfind('\n', log.size() - 2) + 1;
  CHECK_THAT(log.substr(last_line), ContainsSubstring("[error]"));
  CHECK_THAT(log.substr(last_line), ContainsSubstring("3 steps in a row"));
  CHECK(failed.text.find("in a row") == failed.text.rfind("in a row"));  // shown once
}

TEST_CASE("plan prints every memory and allocates nothing") {
  const Folder folder;
  const Outcome planned = plan(folder, "llama-7b.json");
  INFO(planned.text);
  CHECK(planned.code == 0);
  for (const char* text : {"device", "pinned", "pageable", "state.weight", "14.00 bytes"}) {
    CHECK_THAT(planned.text, ContainsSubstring(text));
  }
  CHECK(plan(folder, "llama-7b.json --device-memory 2GiB").code == 3);
  const Outcome no_size = plan(folder, "llama-7b.json --device-memory 2gigs");
  CHECK(no_size.code == 2);
  CHECK_THAT(no_size.text, ContainsSubstring("--device-memory: \"2gigs\" is not a size"));
  // 16 sub-batches of 4096 tokens in 32 layers, 85,120 bytes a token and layer: 166 GiB.
  CHECK_THAT(plan(folder, "llama-7b.json --device-memory 300GiB").text,
             ContainsSubstring("512 cells: 512 full"));
  const Outcome refused =
      plan(folder, "llama-7b.json --device-memory 140GiB --set schedule.activations=full");
  CHECK(refused.code == 3);
  CHECK_THAT(refused.text, ContainsSubstring("schedule.activations"));
}

TEST_CASE("plan predicts for the GPU that is named, within its memory", "[long]") {
  const Folder folder;
  const Outcome measured = plan(folder, "llama-7b.json --gpu h200");
  CHECK(measured.code == 0);
  CHECK_THAT(measured.text, ContainsSubstring("predicted for H200 (measured)"));
  CHECK_THAT(measured.text, ContainsSubstring(" tokens/s, MFU "));
  CHECK_THAT(measured.text, ContainsSubstring("bound by compute"));
  CHECK_THAT(measured.text, ContainsSubstring("of 24 GiB"));  // the config's own limit
  const Outcome estimated = plan(folder, "llama-7b.json --gpu rtx-4090");
  INFO(estimated.text);
  CHECK(estimated.code == 0);
  CHECK_THAT(estimated.text, ContainsSubstring("planned for NVIDIA GeForce RTX 4090, 23.50 GiB"));
  CHECK_THAT(estimated.text, ContainsSubstring("predicted for RTX 4090 (datasheet estimates"));
  // What a run could take there: 97 % of what is free, and the context.
  CHECK_THAT(estimated.text, ContainsSubstring("of 22.81 GiB"));
  const Outcome unknown = plan(folder, "llama-7b.json --gpu 4091");
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.text, ContainsSubstring("did you mean RTX 4090?"));
  const Outcome on_cpu = plan(folder, "tiny-cpu.json --gpu 4090");
  CHECK(on_cpu.code == 2);
  CHECK_THAT(on_cpu.text, ContainsSubstring("run.backend"));
}

TEST_CASE("plan predicts no speed of a GPU that nobody named") {
  const Folder folder;
  const Outcome planned = plan(folder, "llama-7b.json");
  INFO(planned.text);
  CHECK(planned.code == 0);
  CHECK_THAT(planned.text, ContainsSubstring("planned for no GPU in particular"));
  CHECK_THAT(planned.text, ContainsSubstring("name one with --gpu"));
  CHECK_THAT(planned.text, !ContainsSubstring("tokens/s"));
}

TEST_CASE("bench prints a table and writes JSON") {
  const Folder folder;
  const Outcome measured =
      strata(folder, "bench " + configs_folder() +
                         "/tiny-cpu.json --set run.steps=3 --set "
                         "optimizer.warmup_steps=0 --set hardware.peak_tflops=1 --json " +
                         (folder / "bench.json"));
  INFO(measured.text);
  REQUIRE(measured.code == 0);
  const nlohmann::json json = parse_json<nlohmann::json>(read_file(folder / "bench.json"));
  CHECK(json["steps"] == 3);
  CHECK(json["races"] == 0);
  REQUIRE(json["step_s_each"].size() == 3);
  CHECK(json["step_s_each"][2] > 0);
  CHECK(json["updates"]["busy_s"] > 0);
  CHECK(json["updates"]["hidden"] <= 1);
  CHECK(json["first_step_ended_s"] >= json["first_step_begun_s"]);
  CHECK(json["tokens_per_step"] == 512);
  const double tokens_per_s = json["tokens_per_s"];
  CHECK(std::abs(tokens_per_s * json["step_s_mean"].get<double>() / 512.0 - 1.0) < 1e-9);
  CHECK(std::abs(json["mfu"].get<double>() / (json["tflops"].get<double>()) - 1.0) < 1e-9);
  CHECK(json["hfu"] > json["mfu"]);
  CHECK(json["peak_tflops"] == 1);
  CHECK(json["peak_origin"] == "hardware.peak_tflops");
  CHECK(json["mfu_formula"] == "flops_per_token * tokens_per_s / (peak_tflops * 1e12 * ranks)");
  CHECK(!json.contains("mfu_warning"));
  CHECK_THAT(measured.text, ContainsSubstring("with 1 TFLOP/s of hardware.peak_tflops"));
  CHECK(json["kept_cells"]["recompute"] == 8);
  CHECK(json["kept_cells"]["full"] == 0);
}

TEST_CASE("an MFU above 100 % comes with a warning that names the peak and its key") {
  const Folder folder;
  const std::string peak = " --set hardware.peak_tflops=1e-6";
  const Outcome measured =
      strata(folder, "bench " + configs_folder() +
                         "/tiny-cpu.json --set run.steps=1 --set optimizer.warmup_steps=0 --json " +
                         (folder / "bench.json") + peak);
  INFO(measured.text);
  REQUIRE(measured.code == 0);
  CHECK_THAT(measured.text, ContainsSubstring("set hardware.peak_tflops to"));
  CHECK(parse_json<nlohmann::json>(read_file(folder / "bench.json")).contains("mfu_warning"));
  const Outcome trained = strata(folder, train_tiny(folder, "run", peak));
  REQUIRE(trained.code == 0);
  const std::size_t at = trained.text.find("set hardware.peak_tflops to");
  CHECK(at != std::string::npos);
  CHECK(trained.text.find("set hardware.peak_tflops to", at + 1) == std::string::npos);  // once
  CHECK(metrics(folder / "run")[1].contains("mfu_warning"));
}

TEST_CASE("bench and plan say how many units are speculated, bench how many steps missed") {
  const Folder folder;
  const std::string config =
      configs_folder() + "/tiny-cpu.json --set optimizer.timing=speculative ";
  const Outcome measured =
      strata(folder, "bench " + config +
                         "--set run.steps=3 --set optimizer.warmup_steps=0 --set "
                         "optimizer.grad_clip=1e-6 --json " +
                         (folder / "bench.json"));
  INFO(measured.text);
  REQUIRE(measured.code == 0);
  CHECK_THAT(measured.text, ContainsSubstring("3 of 3 steps missed"));
  const nlohmann::json json = parse_json<nlohmann::json>(read_file(folder / "bench.json"));
  CHECK(json["missed_steps"] == 3);
  CHECK(json["speculated_units"] == 3);
  CHECK(json["races"] == 0);
  CHECK_THAT(strata(folder, "plan " + config).text,
             ContainsSubstring("3 units updated speculatively"));
  CHECK_THAT(strata(folder, "plan " + config + "--set optimizer.undo_log=1KiB").text,
             ContainsSubstring("no unit is updated speculatively"));
}

TEST_CASE("the metrics of a speculative run say which steps missed") {
  const Folder folder;
  for (const bool clips : {false, true}) {
    REQUIRE(
        strata(folder, train_tiny(folder, "run",
                                  std::string("--overwrite --set optimizer.timing=speculative ") +
                                      "--set optimizer.grad_clip=" + (clips ? "1e-3" : "1e9")))
            .code == 0);
    const std::vector<nlohmann::json> lines = metrics(folder / "run");
    CHECK(lines.back()["missed_steps"] == (clips ? 4 : 0));
    CHECK(lines[1]["missed"] == clips);
  }
  REQUIRE(strata(folder, train_tiny(folder, "run", "--overwrite")).code == 0);
  CHECK(!metrics(folder / "run")[1].contains("missed"));
}

TEST_CASE("bench predicts what it measures if it is told the machine's rates", "[long]") {
  const Folder folder;
  const std::string bench = "bench " + configs_folder() +
                            "/tiny-cpu.json --set run.steps=1 --set optimizer.warmup_steps=0 "
                            "--set run.dtype=bf16 --json " +
                            (folder / "bench.json");
  const Outcome unknown = strata(folder, bench);
  INFO(unknown.text);
  REQUIRE(unknown.code == 0);
  CHECK_THAT(unknown.text, ContainsSubstring("nobody has measured this device"));
  nlohmann::json json = parse_json<nlohmann::json>(read_file(folder / "bench.json"));
  CHECK(json["prediction"].contains("unknown"));
  // Work that is over as soon as it starts has no rate: here that may be all but these.
  for (const char* rate : {"product_tflops", "attention_forward_tflops"}) {
    CHECK(json["hardware"][rate] > 0);
  }
  const std::string rates =
      " --set hardware.product_tflops=0.05 --set hardware.device_gbs=10 --set "
      "hardware.attention_forward_tflops=0.05 --set hardware.host_gbs=10 --set "
      "hardware.attention_backward_tflops=0.05";
  const Outcome told = strata(folder, bench + rates);
  INFO(told.text);
  REQUIRE(told.code == 0);
  CHECK_THAT(told.text, ContainsSubstring("; predicted "));
  CHECK_THAT(told.text, ContainsSubstring("optimizer.interleave 0 chosen: "));
  json = parse_json<nlohmann::json>(read_file(folder / "bench.json"));
  const nlohmann::json& prediction = json["prediction"];
  CHECK(prediction["step_s"] > 0);
  REQUIRE(json["choices"].size() == 1);
  CHECK(json["choices"][0]["key"] == "optimizer.interleave");
  CHECK(json["choices"][0]["step_s"] == prediction["step_s"]);
  CHECK_THAT(
      strata(folder, "plan " + configs_folder() + "/tiny-cpu.json --set run.dtype=bf16" + rates)
          .text,
      ContainsSubstring("optimizer.interleave 0 chosen: "));
  CHECK(prediction["step_s_mean"] >= prediction["step_s"]);
  CHECK(prediction["lanes"].size() == json["lanes"].size());
  double products = 0;
  for (const nlohmann::json& work : json["work"]) {
    INFO(json_text(work));
    CHECK(work["predicted_s"].is_number());
    if (work["name"] == "matmul") products += work["predicted_s"].get<double>();
  }
  CHECK(products > 0);
  CHECK(products < prediction["lanes"]["compute"]["busy_s"]);
}

TEST_CASE("bench counts no FLOPs of what is kept") {
  const Folder folder;
  const Outcome measured =
      strata(folder, "bench " + configs_folder() +
                         "/tiny-cpu.json --set run.steps=1 --set optimizer.warmup_steps=0 --set "
                         "hardware.peak_tflops=1 --set schedule.activations=full --json " +
                         (folder / "bench.json"));
  INFO(measured.text);
  REQUIRE(measured.code == 0);
  CHECK_THAT(measured.text, ContainsSubstring("8 cells: 8 full"));
  const nlohmann::json json = parse_json<nlohmann::json>(read_file(folder / "bench.json"));
  CHECK(json["recompute_flops_per_token"] == 0);
  CHECK(json["hfu"] == json["mfu"]);
  CHECK(json["kept_cells"]["full"] == 8);
}

TEST_CASE("a plan for several ranks needs no launcher") {
  const Folder folder;
  const auto planned = [&](const std::string& more) {
    const Outcome outcome = plan(folder, "tiny-cpu.json " + more);
    INFO(outcome.text);
    CHECK(outcome.code == 0);
    return outcome.text;
  };
  CHECK(planned("--ranks 1") == planned(""));
  CHECK(planned("--ranks 4") != planned(""));  // a quarter of the state
  CHECK_THAT(planned("--ranks 4 --ranks-per-node 2"), ContainsSubstring("blocks:"));
  const std::string predicted = planned(
      "--ranks 4 --ranks-per-node 2 --gpu h200 --set run.backend=auto "
      "--set run.dtype=bf16 --set run.shard_group=node");
  CHECK_THAT(predicted, ContainsSubstring("4 ranks on 2 hosts with NICs of 100 GB/s"));
  CHECK_THAT(predicted, ContainsSubstring("lane comm") && ContainsSubstring(" a rank)"));
  const Outcome refused = plan(folder, "tiny-cpu.json --ranks 2 --ranks-per-node 4");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("--ranks-per-node") && ContainsSubstring("--ranks"));
  const Outcome uneven = plan(folder, "tiny-cpu.json --ranks 64 --ranks-per-node 7");
  CHECK(uneven.code == 2);
  CHECK_THAT(uneven.text, ContainsSubstring("hosts of 7 ranks do not add up to 64"));
}

#ifdef STRATA_MPIEXEC
TEST_CASE("ranks share one run and find the same losses", "[mpi]") {
  const Folder folder;
  REQUIRE(strata(folder, train_tiny(folder, "alone", "--set run.dtype=f64")).code == 0);
  const std::vector<double> expected = losses(folder / "alone");
  for (const int ranks : {1, 2, 4}) {
    const std::string name = "ranks" + std::to_string(ranks);
    // 2 sub-batches of 2 rows: four rows, split between the ranks.
    const int sub_batches = ranks == 1 ? 2 : 1;
    const int rows = 4 / ranks / sub_batches;
    const Outcome done = strata_on_ranks(
        folder, ranks,
        train_tiny(folder, name,
                   "--set run.dtype=f64 --set run.threads=1 --set schedule.sub_batches=" +
                       std::to_string(sub_batches) +
                       " --set schedule.rows=" + std::to_string(rows)));
    INFO(done.text);
    REQUIRE(done.code == 0);
    const std::vector<double> found = losses(folder / name);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(std::abs(found[i] - expected[i]) < 1e-9 * expected[i]);
    }
  }
}

/// Starts two ranks, of which the second is given `more`.
Outcome strata_on_unlike_ranks(const Folder& folder, const std::string& more) {
  const std::string rank = "-n 1 " + strata_program() + " ";
  const std::string arguments = train_tiny(folder, "run", "--set run.threads=1 ");
  return run(folder, kMpiExec + rank + arguments + " : " + rank + arguments + more);
}

TEST_CASE("ranks that were given different runs are refused with the keys", "[mpi]") {
  const Folder folder;
  const Outcome refused =
      strata_on_unlike_ranks(folder, "--set run.seed=7 --set schedule.passes=3 --set run.steps=9");
  INFO(refused.text);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("run.seed: rank 0 has 1, rank 1 has 7") &&
                               ContainsSubstring("schedule.passes: rank 0 has 1, rank 1 has 3") &&
                               ContainsSubstring("run.steps: rank 0 has 4, rank 1 has 9"));
  CHECK_FALSE(fs::exists(folder / "run"));
}

TEST_CASE("ranks of different commands are refused with the commands", "[mpi]") {
  const Folder folder;
  const std::string tiny = configs_folder() + "/tiny-cpu.json";
  std::ofstream(folder / "prompts.jsonl") << R"({"tokens": [1, 2], "max_tokens": 1})";
  const Outcome refused = [&] {
    std::string ranks = kMpiExec;
    for (const std::string& command : std::vector<std::string>{
             train_tiny(folder, "run", ""),
             "generate " + goldens_folder() + "/mha --input " + (folder / "prompts.jsonl"),
             "plan " + tiny, "bench " + tiny + " --generate --prompt-tokens 8 --max-tokens 8",
             "doctor " + tiny,
             "bench " + tiny + " --set run.steps=1 --set optimizer.warmup_steps=0"}) {
      if (ranks != kMpiExec) ranks += " : ";
      ranks += "-n 1 " + strata_program() + " " + command;
    }
    return run(folder, ranks);
  }();
  INFO(refused.text);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("started for different commands") &&
                               ContainsSubstring("rank 0: train\n  rank 1: generate\n"
                                                 "  rank 2: plan\n  rank 3: bench --generate\n"
                                                 "  rank 4: doctor\n  rank 5: bench"));
  CHECK_FALSE(fs::exists(folder / "run"));
}

TEST_CASE("ranks that a command has no use for are told so", "[mpi]") {
  const Folder folder;
  const std::string tiny = configs_folder() + "/tiny-cpu.json";
  std::ofstream(folder / "prompts.jsonl") << R"({"tokens": [1, 2], "max_tokens": 1})";
  for (const auto& [command, text] : std::vector<std::pair<std::string, std::string>>{
           {"generate " + goldens_folder() + "/mha --input " + (folder / "prompts.jsonl"),
            "generate: generation runs on one rank, and a launcher has started 2"},
           {"plan " + tiny + " --ranks 2", "--ranks: a launcher has started 2 ranks"},
           {"plan " + tiny + " --ranks-per-node 3", "raise --ranks"}}) {
    const Outcome refused = strata_on_ranks(folder, 2, command);
    INFO(refused.text);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.text, ContainsSubstring(text));
  }
}

TEST_CASE("what is refused on paper is told under a launcher as well", "[mpi]") {
  const Folder folder;
  const std::string tiny = configs_folder() + "/tiny-cpu.json";
  const std::string little = " --set memory.host_limit=1MiB";
  const Outcome planned = strata_on_ranks(folder, 2, "plan " + tiny + little);
  INFO(planned.text);
  CHECK(planned.code == 3);
  CHECK_THAT(planned.text, ContainsSubstring("on all ranks: the run needs"));
  CHECK_THAT(planned.text, !ContainsSubstring("MPI_ABORT"));
  const Outcome tuned = strata_on_ranks(folder, 2, "tune " + tiny + " --tokens 1024" + little);
  INFO(tuned.text);
  CHECK(tuned.code == 3);
  CHECK_THAT(tuned.text, ContainsSubstring("ways to run it fits"));
  const Outcome measured =
      strata_on_ranks(folder, 2, "tune " + tiny + " --tokens 1024 --measure 1");
  INFO(measured.text);
  CHECK(measured.code == 2);
  CHECK_THAT(measured.text, ContainsSubstring("--measure: runs one rank"));
}

TEST_CASE("the doctor's lines say which rank they are of", "[mpi]") {
  const Folder folder;
  const Outcome found = strata_on_ranks(folder, 2, "doctor");
  INFO(found.text);
  std::size_t lines = 0;
  std::istringstream text(found.text);
  for (std::string line; std::getline(text, line);) {
    if (line.find(" host memory ") == std::string::npos) continue;
    ++lines;
    CHECK((line.find("[rank 0] ok") == 0 || line.find("[rank 1] ok") == 0));
  }
  CHECK(lines == 2);
}

TEST_CASE("a rank that cannot load its config ends all of them", "[mpi]") {
  const Folder folder;
  const Outcome refused = strata_on_unlike_ranks(folder, "--set run.sead=7");
  INFO(refused.text);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("rank 1: ") && ContainsSubstring("run.sead"));
  CHECK_FALSE(fs::exists(folder / "run"));
}

TEST_CASE("a rank that fails takes the others down with its exit code", "[mpi]") {
  const Folder folder;
  const Outcome failed = strata_on_ranks(
      folder, 2,
      train_tiny(folder, "run",
                 "--set data.synthetic=false --set data.train=" + (folder / "missing.bin")));
  CHECK(failed.code == 2);
  CHECK_THAT(failed.text, ContainsSubstring("on all ranks: ") && ContainsSubstring("missing.bin"));
  CHECK(failed.text.find("missing.bin") == failed.text.rfind("missing.bin"));  // told once
}

TEST_CASE("four ranks tell where each is, and a plan that fits none is refused once", "[mpi]") {
  const Folder folder;
  const Outcome refused =
      strata_on_ranks(folder, 4, train_tiny(folder, "run", "--set memory.host_limit=1MiB"));
  INFO(refused.text);
  CHECK(refused.code == 3);
  const std::string all = "on all ranks: ";
  CHECK_THAT(refused.text, ContainsSubstring(all) && ContainsSubstring("rank    0  host ") &&
                               ContainsSubstring("rank    3  host "));
  CHECK(refused.text.find("memory.host_limit") > refused.text.find(all));
  CHECK(refused.text.find(all) == refused.text.rfind(all));
}
#endif

}  // namespace strata::test
