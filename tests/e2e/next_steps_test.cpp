// Runs what the last lines of commands say: every command that proposes others is here.

#include "e2e/next_steps.h"

#include <fstream>

#include "support/places.h"

namespace strata::test {

namespace {

using Placeholders = std::map<std::string, std::string>;

/// Writes a config that trains for a step on what `--set data.train` names.
std::string write_config(const Folder& folder, const std::string& name) {
  auto config = parse_json<nlohmann::json>(read_file(configs_folder() + "/tiny-cpu.json"));
  config["run"]["steps"] = 1;
  config["run"]["output"] = folder / ("run of " + name);
  config["optimizer"]["warmup_steps"] = 0;
  config["data"] = {{"sequence_length", 32}};
  config["model"]["vocab_size"] = 300;
  std::ofstream(folder / name) << config;
  return name;
}

}  // namespace

TEST_CASE("what is proposed after a tokenizer, token files, a run and an export can be typed") {
  const Folder folder;
  static_cast<void>(tokenize_text(folder));
  const Outcome trained =
      ended_well(folder, "tokenizer train " + (folder / "text") + " --vocab-size 300 --output \"" +
                             (folder / "the tokenizer") + "\"");
  CHECK_THAT(run_next(folder, trained, "", Placeholders{{"TEXTS", "text"}}),
             ContainsSubstring("tokenize TEXTS"));
  const Outcome tokenized = ended_well(
      folder, "tokenize " + (folder / "text") + " --output " + (folder / "train.bin") +
                  " --validation-output " + (folder / "val.bin") + " --validation-fraction 0.2");
  CHECK_THAT(
      run_next(folder, tokenized, "", Placeholders{{"CONFIG", write_config(folder, "a.json")}}),
      ContainsSubstring("data.validation="));
  const std::string run_folder = folder / "a run";
  const std::string train = "train " + configs_folder() + "/tiny-cpu.json --output \"" +
                            run_folder + "\" --set run.steps=2 --set optimizer.warmup_steps=1 ";
  const Outcome unsaved = ended_well(folder, train + "--set checkpoint.at_end=false");
  CHECK_THAT(run_next(folder, unsaved, "", {}), ContainsSubstring("strata report"));
  const Outcome half_saved =
      ended_well(folder, train +
                             "--overwrite --set checkpoint.at_end=false --set "
                             "checkpoint.every_steps=1 --set run.steps=3 --set "
                             "checkpoint.every_steps=2");
  CHECK_THAT(run_next(folder, half_saved, "", Placeholders{{"MODEL", "half"}}),
             ContainsSubstring("takes the one after step 2"));
  const Outcome saved = ended_well(folder, train + "--overwrite");
  CHECK_THAT(run_next(folder, saved, "", Placeholders{{"MODEL", "model"}, {"TEXT", "x"}}),
             ContainsSubstring("strata generate"));
  const Outcome exported =
      ended_well(folder, "export \"" + run_folder + "\" " + (folder / "exported"));
  CHECK_THAT(run_next(folder, exported, "", Placeholders{{"TEXT", "x"}}),
             ContainsSubstring("generate"));
}

TEST_CASE("what is proposed after an import, and of a model with a template, can be typed") {
  const Folder folder;
  ended_well(folder, train_tiny(folder, "made",
                                "--set model.vocab_size=640 --set run.steps=1 --set "
                                "optimizer.warmup_steps=0"));
  ended_well(folder, "export " + (folder / "made") + " " + (folder / "model"));
  fs::copy_file(tokenizer_goldens_folder() + "/llama3.json", folder / "model/tokenizer.json");
  std::ofstream(folder / "model/chat_template.jinja") << "{{ messages[0].content }}";
  const Outcome imported =
      ended_well(folder, "import " + (folder / "model") + " " + (folder / "imported"));
  auto config = parse_json<nlohmann::json>(read_file(configs_folder() + "/tiny-cpu.json"));
  config.erase("model");
  config["run"]["steps"] = 1;
  config["run"]["output"] = folder / "tuned";
  config["optimizer"]["warmup_steps"] = 0;
  std::ofstream(folder / "config.json") << config;
  CHECK_THAT(run_next(folder, imported, "", Placeholders{{"CONFIG", "config.json"}}),
             ContainsSubstring("strata train CONFIG --set model.path=") &&
                 ContainsSubstring(", strata chat "));
  const Outcome exported =
      ended_well(folder, "export " + (folder / "tuned") + " " + (folder / "out"));
  CHECK_THAT(run_next(folder, exported, "", {}), ContainsSubstring("strata chat "));
}

TEST_CASE("what is proposed after tokens were added to a model's tokenizer can be typed") {
  const Folder folder;
  ended_well(folder, train_tiny(folder, "made",
                                "--set model.vocab_size=604 --set run.steps=1 --set "
                                "optimizer.warmup_steps=0"));
  ended_well(folder, "export " + (folder / "made") + " " + (folder / "model"));
  fs::copy_file(tokenizer_goldens_folder() + "/llama3.json", folder / "model/tokenizer.json");
  std::ofstream chats(folder / "chats.jsonl");
  for (int i = 0; i < 20; ++i) {
    chats << R"({"prompt": "Is it far?", "completion": "Ten minutes on foot."})" << '\n';
  }
  chats.close();
  auto config = parse_json<nlohmann::json>(read_file(configs_folder() + "/tiny-cpu.json"));
  config.erase("model");
  config["run"]["steps"] = 1;
  config["run"]["output"] = folder / "tuned";
  config["optimizer"]["warmup_steps"] = 0;
  config["data"] = {{"sequence_length", 32}};
  std::ofstream(folder / "config.json") << config;
  const Outcome added = ended_well(folder, "tokenizer add " + (folder / "model") +
                                               " '<|im_start|>' '<|im_end|>' --output \"" +
                                               (folder / "chat words") + "\"");
  CHECK_THAT(run_next(folder, added, "",
                      Placeholders{{"CHATS", "chats.jsonl"}, {"CONFIG", "config.json"}}),
             ContainsSubstring(" --set model.vocab_size=606 "));
  CHECK(fs::exists(folder / "tuned/checkpoints"));
}

TEST_CASE("what is proposed after a run that was interrupted, and after tune, can be typed") {
  const Folder folder;
  const std::string train = train_tiny(folder, "run", "--set run.log_every=1000000 ");
  const std::string endless = train + "--set run.steps=1000000000 ";
  const std::string metrics_file = folder / "run/metrics.jsonl";
  std::ofstream(folder / "interrupt.sh")
      << strata_program() << " " << endless << " &\nwhile kill -0 $! && ! grep -qs "
      << "'\"event\":\"step\"' " << metrics_file << "; do sleep 0.02; done\nkill -TERM $!\nwait $!";
  const Outcome interrupted = run(folder, kUnlessItHangs + "sh " + (folder / "interrupt.sh"));
  INFO(interrupted.text);
  REQUIRE(interrupted.code == 75);
  // It goes on with one step more than none: that the run has done more is no error.
  CHECK_THAT(run_next(folder, interrupted, train + "--set run.steps=1 --allow run.steps", {}),
             ContainsSubstring("--resume auto"));
  const std::string tune = "tune " + configs_folder() +
                           "/tiny-cpu.json --set run.dtype=bf16 --set run.backend=auto --gpu H200 "
                           "--host-memory 100GiB";
  const std::string no_gpu = "CUDA_VISIBLE_DEVICES= ";
  const Outcome tuned = run(folder, no_gpu + strata_program() + " " + tune);
  INFO(tuned.text);
  REQUIRE(tuned.code == 0);
  CHECK_THAT(run_next(folder, tuned, tune, Placeholders{{"FILE", "tuned.json"}}, no_gpu),
             ContainsSubstring("--output FILE"));
  CHECK(fs::exists(folder / "tuned.json"));
}

}  // namespace strata::test
