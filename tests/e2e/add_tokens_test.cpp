// Tokens that are added to a model's tokenizer become rows of its embedding and head: what a run
// begins with, and what leaves, by their bytes. tests/e2e/chat_model_test.py asks transformers.

#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "e2e/lines.h"
#include "e2e/model_files.h"
#include "e2e/program.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"

namespace strata::test {

namespace {

constexpr int kOwnIds = 604;  // of the golden tokenizer
constexpr int kIds = 606;
constexpr int kEnd = 605;  // <|im_end|>
const std::string kEmbedding = "model.embed_tokens.weight";
const std::string kHead = "lm_head.weight";

/// Makes a model with a tokenizer and no markers of chats, the tokenizer with them, and a token
/// file of chats.
void prepare(const Folder& folder, bool tied) {
  ended_well(folder, train_tiny(folder, "made",
                                "--set model.vocab_size=604 --set run.steps=1 --set "
                                "optimizer.warmup_steps=0 --set model.tie_word_embeddings=" +
                                    std::string(tied ? "true" : "false")));
  ended_well(folder, "export " + (folder / "made") + " " + (folder / "base") + " --dtype f32");
  fs::copy_file(tokenizer_goldens_folder() + "/llama3.json", folder / "base/tokenizer.json");
  write_file(folder / "base/tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  const std::map<std::string, std::string> before = contents_of(folder / "base");
  ended_well(folder, "tokenizer add " + (folder / "base") +
                         " '<|im_start|>' '<|im_end|>' --output " + (folder / "words"));
  CHECK(contents_of(folder / "base") == before);
  std::ofstream chats(folder / "chats.jsonl");
  for (int i = 0; i < 60; ++i) {
    chats << R"({"prompt": "Say )" << i << R"(", "completion": "the answer is yes"})" << '\n';
  }
  chats.close();
  const Outcome made = ended_well(
      folder, "tokenize " + (folder / "chats.jsonl") + " --tokenizer " + (folder / "words") +
                  " --chat-template chatml --output " + (folder / "train.bin"));
  CHECK_THAT(made.text, !ContainsSubstring("no token"));
}

/// A run that changes no weight, from the base.
std::string train_still(const Folder& folder, const std::string& run, const std::string& more) {
  auto config = parse_json<nlohmann::json>(read_file(configs_folder() + "/tiny-cpu.json"));
  config["model"] = {{"path", folder / "base"}};
  config["run"]["steps"] = 1;
  config["run"]["output"] = folder / run;
  config["optimizer"] = {{"lr", 0}, {"warmup_steps", 0}, {"gradient_dtype", "f32"}};
  config["data"] = {{"sequence_length", 32}, {"train", folder / "train.bin"}};
  std::ofstream(folder / (run + ".json")) << config;
  return "train " + (folder / (run + ".json")) + ' ' + more;
}

std::string with_rows(const Folder& folder) {
  return " --set model.vocab_size=606 --set model.tokenizer=" + (folder / "words") + ' ';
}

/// Checks that a matrix has the rows of the one before, and two that are their mean.
void check_rows(const Tensor& before, const Tensor& after) {
  const auto columns = static_cast<std::size_t>(before.shape[1]);
  CHECK(before.shape == std::vector<std::int64_t>{kOwnIds, before.shape[1]});
  CHECK(after.shape == std::vector<std::int64_t>{kIds, before.shape[1]});
  CHECK(after.data.substr(0, before.data.size()) == before.data);
  const auto old = values_of<float>(before.data);
  const auto all = values_of<float>(after.data);
  REQUIRE(all.size() == kIds * columns);
  for (std::size_t column = 0; column < columns; ++column) {
    double sum = 0;
    for (std::size_t row = 0; row < kOwnIds; ++row) sum += old[row * columns + column];
    for (std::size_t row = kOwnIds; row < kIds; ++row) {
      CHECK(all[row * columns + column] == static_cast<float>(sum / kOwnIds));
    }
  }
}

}  // namespace

TEST_CASE("a run gives a model rows for tokens that were added, and the export has them") {
  const bool tied = GENERATE(true, false);
  CAPTURE(tied);
  const Folder folder;
  prepare(folder, tied);
  const Outcome trained = ended_well(folder, train_still(folder, "tuned", with_rows(folder)));
  CHECK_THAT(trained.text, ContainsSubstring("grows from 604 to 606 ids") &&
                               ContainsSubstring("the mean of the others"));
  ended_well(folder, "export " + (folder / "tuned") + " " + (folder / "out") + " --dtype f32");

  const std::map<std::string, Tensor> before = model_tensors(folder / "base");
  const std::map<std::string, Tensor> after = model_tensors(folder / "out");
  CHECK(after.size() == before.size());
  CHECK(after.contains(kHead) == !tied);
  for (const auto& [name, tensor] : before) {
    INFO(name);
    if (name == kEmbedding || name == kHead) {
      check_rows(tensor, after.at(name));
    } else {
      CHECK(after.at(name) == tensor);
    }
  }
  const auto config = parse_json<nlohmann::json>(read_file(folder / "out/config.json"));
  CHECK(config["vocab_size"] == kIds);
  CHECK(read_file(folder / "out/tokenizer.json") == read_file(folder / "words/tokenizer.json"));
  const auto ends = parse_json<nlohmann::json>(read_file(folder / "out/generation_config.json"));
  CHECK(ends["eos_token_id"] == nlohmann::json{601, kEnd});
  const std::string generated = printed(
      folder, "generate " + (folder / "out") + " --chat --prompt far --max-tokens 3 --json");
  CHECK(parse_json<nlohmann::json>(generated)["prompt_tokens"] > 3);

  if (tied) return;
  // The run goes on, and plan and doctor take its config.
  const std::string two = with_rows(folder) + "--set run.steps=2";
  ended_well(folder, train_still(folder, "tuned", two + " --resume auto --allow run.steps"));
  ended_well(folder, "plan " + (folder / "tuned.json") + two);
  CHECK_THAT(strata(folder, "doctor " + (folder / "tuned.json") + two).text,
             ContainsSubstring("grows from 604 to 606 ids"));
}

TEST_CASE("rows of added tokens are trained whole beside adapters, and exports have them") {
  const bool tied = GENERATE(true, false);
  CAPTURE(tied);
  const Folder folder;
  prepare(folder, tied);
  const std::string more = with_rows(folder) + "--set optimizer.lr=0.01 ";
  ended_well(folder,
             train_still(folder, "tuned",
                         more + "--set adapter.rank=2 --set "
                                "'adapter.modules_to_save=[\"embed_tokens\",\"lm_head\"]'"));
  const std::string as = " --dtype f32";
  ended_well(folder, "export " + (folder / "tuned") + " " + (folder / "out") + as);
  ended_well(folder, "export --adapter-only " + (folder / "tuned") + " " + (folder / "peft") + as);
  const std::map<std::string, Tensor> before = model_tensors(folder / "base");
  const std::map<std::string, Tensor> merged = model_tensors(folder / "out");
  const std::map<std::string, Tensor> alone = model_tensors(folder / "peft");
  for (const std::string& name : {kEmbedding, kHead}) {
    INFO(name);
    const std::string named = "base_model.model." + name;
    CHECK(merged.contains(name) == (name == kEmbedding || !tied));
    const Tensor& made = merged.at(tied ? kEmbedding : name);  // PEFT has a tied one twice
    CHECK(made == alone.at(named));
    CHECK(made.shape == std::vector<std::int64_t>{kIds, before.at(kEmbedding).shape[1]});
    const std::size_t row = made.data.size() / kIds;
    CHECK(made.data.substr((kIds - 2) * row, row) != made.data.substr((kIds - 1) * row, row));
  }
  const auto config = parse_json<nlohmann::json>(read_file(folder / "peft/adapter_config.json"));
  CHECK(config.contains("ensure_weight_tying") == tied);
  const std::string text = " --context 33 --input " + (folder / "train.bin");
  CHECK(printed(folder, "evaluate " + (folder / "tuned") + text) ==
        printed(folder, "evaluate " + (folder / "out") + text));
  check_refused(
      folder, "generate " + (folder / "base") + " --adapter " + (folder / "peft") + " --prompt a",
      "has shape [606, 16], and the model and the adapter's config ask for [604, 16]; it was "
      "trained after tokens were added");
  ended_well(folder, train_still(folder, "on", more + "--set adapter.path=" + (folder / "peft")));
}

TEST_CASE("a run says which rows of added tokens adapters leave as they are") {
  const bool tied = GENERATE(true, false);
  CAPTURE(tied);
  const Folder folder;
  prepare(folder, tied);
  const auto said = [&](const std::string& modules) {
    return ended_well(folder, train_still(folder, "tuned",
                                          with_rows(folder) + "--overwrite --set adapter.rank=2 " +
                                              "--set 'adapter.modules_to_save=[" + modules + "]'"))
        .text;
  };
  const std::string lacks = "others; adapter.modules_to_save lacks ";
  const std::string both = tied ? "embed_tokens, whose" : "embed_tokens and lm_head, whose";
  CHECK_THAT(said(""), ContainsSubstring(lacks + both));
  CHECK_THAT(said("\"norm\""), ContainsSubstring(lacks + both));
  const std::string one = said("\"embed_tokens\"");
  CHECK((one.find(lacks + "lm_head, whose new rows stay so") != one.npos) == !tied);
  CHECK((one.find(lacks) != one.npos) == !tied);
}

TEST_CASE("a vocabulary changes only where the config says so, and not across a resume") {
  const Folder folder;
  prepare(folder, false);
  const auto refused = [&](const std::string& more, const std::string& why) {
    check_refused(folder, train_still(folder, "refused", more), why);
    CHECK_FALSE(fs::exists(folder / "refused/checkpoints"));
  };
  const std::string words = "--set model.tokenizer=" + (folder / "words");
  CHECK(strata(folder, train_still(folder, "refused", words)).code != 0);
  CHECK_THAT(strata(folder, train_still(folder, "refused", words)).text,
             ContainsSubstring("set model.vocab_size to 606"));
  CHECK_THAT(strata(folder, train_still(folder, "refused", "--set model.vocab_size=606")).text,
             ContainsSubstring("name it as model.tokenizer"));
  refused("--set model.vocab_size=603", "model.vocab_size: is below that of");

  ended_well(folder, "tokenize " + (folder / "chats.jsonl") + " --tokenizer " + (folder / "base") +
                         " --chat-template llama2 --output " + (folder / "old.bin"));
  const std::string old = "--set data.train=" + (folder / "old.bin");
  ended_well(folder, train_still(folder, "before", old));
  check_refused(folder, train_still(folder, "before", with_rows(folder) + old + " --resume auto"),
                "model.vocab_size: was 604, is 606 (another model");
}

TEST_CASE("tokens are added to a new folder alone, and only where a tokenizer takes them") {
  const Folder folder;
  fs::create_directories(folder / "base");
  fs::copy_file(tokenizer_goldens_folder() + "/llama3.json", folder / "base/tokenizer.json");
  const std::string add = "tokenizer add " + (folder / "base");
  const Outcome added =
      ended_well(folder, add + " '<a>' '<tool>' --output " + (folder / "new/one"));
  CHECK_THAT(added.text,
             ContainsSubstring("<a> 604\n<tool> 603, as before\n") && ContainsSubstring("605 ids"));
  CHECK(printed(folder, "tokenizer encode " + (folder / "new/one") + " --parse-special " +
                            (folder / "base/tokenizer.json")) != "");
  check_refused(folder, add + " '<b>' --output " + (folder / "base"), "is there already");
  check_refused(folder, add + " '<tool>' --output " + (folder / "two"), "has all of these tokens");
  check_refused(folder,
                "tokenizer add " + tokenizer_goldens_folder() +
                    "/sentencepiece.model '<b>' --output " + (folder / "two"),
                "is no tokenizer.json");
  CHECK_FALSE(fs::exists(folder / "two"));
}

#ifdef STRATA_MPIEXEC
TEST_CASE("ranks that share a model give it the same rows", "[mpi]") {
  const Folder folder;
  prepare(folder, false);
  const Outcome two = strata_on_ranks(folder, 2, train_still(folder, "two", with_rows(folder)));
  INFO(two.text);
  REQUIRE(two.code == 0);
  ended_well(folder, "export " + (folder / "two") + " " + (folder / "out") + " --dtype f32");
  const std::map<std::string, Tensor> before = model_tensors(folder / "base");
  const std::map<std::string, Tensor> after = model_tensors(folder / "out");
  for (const std::string& name : {kEmbedding, kHead}) check_rows(before.at(name), after.at(name));
}
#endif

}  // namespace strata::test
