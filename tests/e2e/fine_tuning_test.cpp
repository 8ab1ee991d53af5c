// From a file of chats to a model that was trained on them: the commands of docs/fine-tuning.md on
// a tiny model, and what each leaves.

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

void require_done(const Outcome& outcome) {
  INFO(outcome.text);
  REQUIRE(outcome.code == 0);
}

/// Writes chats that all have one answer.
void write_chats(const std::string& file) {
  std::ofstream out(file);
  for (int i = 0; i < 300; ++i) {
    const std::string word = std::string(1, static_cast<char>('a' + i % 26)) + std::to_string(i);
    const nlohmann::json question{{"role", "user"}, {"content", "Say " + word}};
    const nlohmann::json answer{{"role", "assistant"}, {"content", "the answer is yes"}};
    out << nlohmann::json{{"messages", {question, answer}}} << '\n';
  }
}

}  // namespace

TEST_CASE("a file of chats becomes a model that was trained on its answers", "[long]") {
  const Folder folder;
  // A model as others publish it: weights, a tokenizer, and a chat template.
  require_done(strata(folder, train_wide(folder, "made",
                                         "--set model.vocab_size=640 --set run.steps=1 "
                                         "--set checkpoint.at_end=true")));
  const std::string model = folder / "model";
  require_done(strata(folder, "export " + (folder / "made") + " " + model));
  fs::copy_file(tokenizer_goldens_folder() + "/llama3.json", model + "/tokenizer.json");
  write_file(model + "/tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  write_file(model + "/chat_template.jinja",
             "{{ bos_token }}{% for m in messages %}{{ m.role + ': ' + m.content }}"
             "{{ eos_token if m.role == 'assistant' else ' ' }}{% endfor %}"
             "{{ 'assistant: ' if add_generation_prompt }}");
  write_chats(folder / "chats.jsonl");

  const std::string tokenize = "tokenize " + (folder / "chats.jsonl") + " --tokenizer " + model;
  const Outcome shown = strata(folder, tokenize + " --show 2");
  require_done(shown);
  CHECK_THAT(shown.text,
             ContainsSubstring("chats.jsonl:1: ") &&
                 ContainsSubstring("<s>user: Say a0 assistant: the answer is yes</s>") &&
                 ContainsSubstring("601 loss  </s>") && !ContainsSubstring("chats.jsonl:3: ") &&
                 !ContainsSubstring("\033"));  // no colours where no terminal is
  CHECK(!fs::exists(folder / "train.bin"));
  const Outcome made =
      strata(folder, tokenize + " --output " + (folder / "train.bin") + " --validation-output " +
                         (folder / "val.bin") + " --validation-fraction 0.2");
  require_done(made);
  CHECK_THAT(made.text, ContainsSubstring(" with loss"));

  const nlohmann::json config{
      {"run", {{"steps", 40}, {"backend", "cpu"}, {"dtype", "f32"}, {"eval_every", 10}}},
      {"model", {{"path", model}}},
      {"data",
       {{"train", folder / "train.bin"},
        {"validation", folder / "val.bin"},
        {"sequence_length", 64},
        {"document_mask", true},
        {"packing", true}}},
      {"schedule", {{"rows", 2}, {"sub_batches", 2}}},
      {"optimizer", {{"lr", 0.003}, {"gradient_dtype", "f32"}}},
      {"checkpoint", {{"at_end", true}}}};
  write_file(folder / "chat.json", json_text(config));
  require_done(
      strata(folder, "train " + (folder / "chat.json") + " --output " + (folder / "tuned")));
  std::vector<double> validation;
  for (const nlohmann::json& line : metrics(folder / "tuned")) {
    if (line["event"] == "eval") validation.push_back(line["val_loss"]);
    if (line["event"] != "step") continue;
    CHECK(line["valid_tokens"] > 0);
    CHECK(line["valid_tokens"] < line["tokens"]);  // questions are read and not learnt
  }
  REQUIRE(validation.size() == 4);
  CHECK(validation.front() > 1);   // of the logarithm of 640, 6.5
  CHECK(validation.back() < 0.5);  // the answers are all the same

  const auto start = metrics(folder / "tuned").front();
  CHECK(start["padding_share"].at(folder / "train.bin") < 0.2);
  CHECK(start["overlong_documents"] == 0);

  // Records are scored by what training learns of them: as the token file that is made of them.
  require_done(strata(folder, tokenize + " --output " + (folder / "all.bin")));
  const auto evaluated = [&](const std::string& input) {
    write_file(folder / "lines.jsonl",
               printed(folder, "evaluate " + (folder / "tuned") + " --input " + input));
    return lines_of(folder / "lines.jsonl");
  };
  const nlohmann::json rows = evaluated(folder / "all.bin").at(0);
  const std::vector<nlohmann::json> records = evaluated(folder / "chats.jsonl");
  const nlohmann::json summary = records.at(300)["summary"];
  CHECK(summary["tokens"] == rows["tokens"]);
  CHECK(summary["loss"].get<double>() == Approx(rows["loss"].get<double>()).epsilon(1e-5));
  write_file(folder / "pair.jsonl", R"({"prompt": "Say a0", "completion": "the answer is yes"})");
  const nlohmann::json pair = evaluated(folder / "pair.jsonl").at(0);
  CHECK(pair["loglikelihood"] == records.at(0)["loglikelihood"]);
  CHECK(pair["tokens"] == records.at(0)["tokens"]);

  // Every field has its line in the documents.
  const std::string documented = read_file(documents_folder() + "/report.md");
  for (const nlohmann::json& line : metrics(folder / "tuned")) {
    for (const auto& [key, value] : line.items()) {
      CAPTURE(key);
      CHECK(documented.find("`" + key + "`") != std::string::npos);
    }
  }

  require_done(strata(folder, "export " + (folder / "tuned") + " " + (folder / "tuned-model")));
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    CHECK(read_file(folder / ("tuned-model/" + std::string(file))) ==
          read_file(model + "/" + std::string(file)));
  }
  const auto before = model_tensors(model);
  const auto after = model_tensors(folder / "tuned-model");
  REQUIRE(after.size() == before.size());
  CHECK(after.at("lm_head.weight").shape == before.at("lm_head.weight").shape);
  CHECK(after.at("lm_head.weight").data != before.at("lm_head.weight").data);
}

}  // namespace strata::test
