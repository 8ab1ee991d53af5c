// Tests which tokenizer, chat template and end ids a run's model leaves with, of those that its
// config, its model's folder and its token files name, and that samples use the same.

#include "train/model_companions.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/chat/chat_template.h"
#include "strata/train/run_tokenizer.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/log_text.h"
#include "support/scratch_folder.h"

namespace strata::test {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

/// A tokenizer of few letters whose special tokens have ids 3 to 6.
std::string tokenizer_text(const std::string& letters) {
  json vocabulary;
  for (std::size_t i = 0; i < letters.size(); ++i) vocabulary[letters.substr(i, 1)] = i;
  json added = json::array();
  for (const char* token : {"<s>", "</s>", "<|im_start|>", "<|im_end|>"}) {
    const std::size_t id = letters.size() + added.size();
    vocabulary[token] = id;
    added.push_back({{"id", id}, {"content", token}, {"special", true}});
  }
  return json_text(
      json{{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}},
           {"added_tokens", added}});
}

constexpr const char* kNames = R"({"bos_token": "<s>", "eos_token": "</s>"})";

/// A run with a folder for what it is given.
struct GivenRun {
  ScratchFolder folder{};
  RunConfig config{};

  GivenRun() {
    config.model.llama.vocab_size = 7;
    config.run.output = folder.file("run");
    std::filesystem::create_directory(config.run.output);
  }
  void write_tokenizer(const std::string& where, const std::string& letters) const {
    folder.write(where + "/tokenizer.json", tokenizer_text(letters));
    folder.write(where + "/tokenizer_config.json", kNames);
  }
  /// Has a token file with a template beside it, whose answers end at an id.
  void add_token_file(const std::string& name, const std::string& chat_template, int end) {
    write_tokenizer(name + ".tokenizer", "abc");
    folder.write(name + ".tokenizer/chat_template.jinja", chat_template);
    folder.write(name + ".tokenizer/generation_config.json",
                 json_text(json{{"eos_token_id", end}}));
    std::vector<std::string> files = config.data.train.files();
    files.push_back(folder.file(name));
    config.data.train.list = {{.files = files}};
  }
  void begin_with_model(const std::string& config_json) {
    folder.write("model/config.json", config_json);
    config.model.path = folder.file("model");
  }
  [[nodiscard]] CheckpointPlace place() const {
    return {.files = nullptr,
            .folder = std::filesystem::path(config.run.output) / "checkpoints",
            .resume = {}};
  }
  [[nodiscard]] Companions companions() const { return companions_of_run(place(), config); }
};

bool has(const Companions& companions, const std::string& name) {
  return std::ranges::count(companions.files.names, name) == 1;
}

Ids ends_in(const Companions& companions) {
  const json ends =
      parse_json<json>(companions.files.read("generation_config.json"))["eos_token_id"];
  return ends.is_array() ? ends.get<Ids>() : Ids{ends.get<std::int32_t>()};
}

Ids sample_ends(const RunConfig& config) {
  return ends_of_run(config, ModelText(texts_of_run(config)));
}

}  // namespace

TEST_CASE("a new model leaves with the tokenizer of model.tokenizer, and its bos and eos") {
  GivenRun run;
  run.write_tokenizer("own", "abc");
  run.config.model.tokenizer = run.folder.file("own");
  const Companions companions = run.companions();
  CHECK(companions.begin == 3);
  CHECK(companions.end == 4);
  CHECK(companions.files.read("tokenizer.json") == tokenizer_text("abc"));
  CHECK(companions.files.read("tokenizer_config.json") == kNames);
  CHECK(ends_in(companions) == Ids{4});
  CHECK(sample_ends(run.config) == Ids{4});
  CHECK(!has(companions, "chat_template.jinja"));
}

TEST_CASE("a tokenizer file of any name is found by other programs, with the class that reads it") {
  GivenRun run;
  run.folder.write("words.json", tokenizer_text("abc"));
  run.config.model.tokenizer = run.folder.file("words.json");
  const Companions companions = run.companions();
  CHECK(companions.files.read("tokenizer.json") == tokenizer_text("abc"));
  CHECK(parse_json<json>(companions.files.read("tokenizer_config.json"))["tokenizer_class"] ==
        "PreTrainedTokenizerFast");
}

TEST_CASE("answers end at the model's own ids, then at those of the token files") {
  GivenRun run;
  run.write_tokenizer("model", "abc");
  run.begin_with_model(R"({"eos_token_id": 4})");
  run.folder.write("model/generation_config.json",
                   R"({"eos_token_id": [4, 2], "temperature": 0.6})");
  run.add_token_file("a.bin", "of a", 6);
  run.add_token_file("b.bin", "of a", 2);
  const Companions companions = run.companions();
  CHECK(ends_in(companions) == Ids{4, 2, 6});
  CHECK(parse_json<json>(companions.files.read("generation_config.json"))["temperature"] == 0.6);
  CHECK(sample_ends(run.config) == Ids{4, 2, 6});
  CHECK(!companions.begin);
  // Without such a file, those of config.json come first.
  std::filesystem::remove(run.folder.file("model/generation_config.json"));
  CHECK(ends_in(run.companions()) == Ids{4, 6, 2});
  CHECK(sample_ends(run.config) == Ids{4, 6, 2});
}

TEST_CASE("the template beside the first token file that has one goes before the model's own") {
  GivenRun run;
  run.write_tokenizer("model", "abc");
  run.begin_with_model("{}");
  run.folder.write("model/chat_template.jinja", "of the model");
  CHECK(run.companions().files.read("chat_template.jinja") == "of the model");
  CHECK(texts_of_run(run.config).chat_template.empty());
  run.add_token_file("a.bin", "of a", 6);
  CHECK(run.companions().files.read("chat_template.jinja") == "of a");
  CHECK(texts_of_run(run.config).chat_template ==
        run.folder.file("a.bin.tokenizer/chat_template.jinja"));
  run.add_token_file("b.bin", "of b", 6);
  const LogText log;
  CHECK(run.companions().files.read("chat_template.jinja") == "of a");
  CHECK_THAT(log.text(), ContainsSubstring("b.bin.tokenizer is another one than in") &&
                             ContainsSubstring("data.train: "));
}

TEST_CASE("the tokenizer beside the token files is taken where the model has none") {
  GivenRun run;
  run.begin_with_model("{}");
  run.add_token_file("a.bin", "of a", 6);
  CHECK(run.companions().files.read("tokenizer.json") == tokenizer_text("abc"));
  CHECK(texts_of_run(run.config).tokenizer == run.folder.file("a.bin.tokenizer"));
  run.write_tokenizer("model", "xyz");
  CHECK(run.companions().files.read("tokenizer.json") == tokenizer_text("xyz"));
  CHECK(texts_of_run(run.config).tokenizer.empty());
  // One that is named goes before both, with all of its files and no other's.
  run.folder.write("model/merges.txt", "");
  run.write_tokenizer("own", "pqr");
  run.config.model.tokenizer = run.folder.file("own");
  const Companions companions = run.companions();
  CHECK(companions.files.read("tokenizer.json") == tokenizer_text("pqr"));
  CHECK(!has(companions, "merges.txt"));
  CHECK(texts_of_run(run.config).tokenizer == run.folder.file("own"));
}

TEST_CASE("a model whose files lack nothing keeps them as they are") {
  GivenRun run;
  run.write_tokenizer("model", "abc");
  run.begin_with_model(R"({"eos_token_id": 4})");
  const Companions companions = run.companions();
  CHECK(!has(companions, "generation_config.json"));
  CHECK(companions.files.read("config.json") == R"({"eos_token_id": 4})");
}

TEST_CASE("a run folder has the tokenizer, template and end ids of the run") {
  GivenRun run;
  run.begin_with_model("{}");
  run.add_token_file("a.bin", "of a", 6);
  const std::filesystem::path folder = run.folder.file("run/tokenizer");
  const auto names = [&] {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      found.push_back(entry.path().filename());
    }
    std::ranges::sort(found);
    return found;
  };
  write_run_tokenizer(run.place(), run.config);
  CHECK(names() == std::vector<std::string>{"chat_template.jinja", "generation_config.json",
                                            "tokenizer.json", "tokenizer_config.json"});
  CHECK(ChatTemplate::of_model(folder.string())->source() == "of a");
  // What is not of the next one goes, and nothing else.
  run.folder.write("run/tokenizer/notes", "");
  std::filesystem::remove(run.folder.file("a.bin.tokenizer/chat_template.jinja"));
  write_run_tokenizer(run.place(), run.config);
  CHECK(names() == std::vector<std::string>{"generation_config.json", "notes", "tokenizer.json",
                                            "tokenizer_config.json"});
  run.config.data.train.clear();
  write_run_tokenizer(run.place(), run.config);
  CHECK(names() == std::vector<std::string>{"notes"});
  run.config.model.tokenizer = run.folder.file("a.bin.tokenizer");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory_symlink(run.folder.file("model"), folder);
  CHECK_THROWS_WITH(write_run_tokenizer(run.place(), run.config),
                    ContainsSubstring("run/tokenizer: the folder cannot be made"));
}

}  // namespace strata::test
