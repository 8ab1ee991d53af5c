// Tests that `evaluate` finds models as good as transformers and training's own validation find
// them, that likelihoods of records fit together, and that what is wrong is named first.

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "e2e/lines.h"
#include "golden/golden_file.h"
#include "strata/data/token_file.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"

namespace strata::test {
namespace {

/// Returns the lines that `evaluate` prints for the model and what follows.
std::vector<nlohmann::json> evaluated(const Folder& folder, const std::string& arguments) {
  const std::string file = folder / "printed.jsonl";
  write_file(file, printed(folder, "evaluate " + arguments));
  return lines_of(file);
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// Writes a token file; `loss` is empty or says of each token whether its loss counts.
void write_tokens(const std::string& file, std::int64_t vocabulary,
                  const std::vector<std::int32_t>& ids, const std::vector<std::uint8_t>& loss) {
  TokenFileWriter writer(file, {.vocabulary = vocabulary});
  if (loss.empty()) {
    writer.append(ids);
  } else {
    writer.append(ids, loss);
  }
  writer.close();
  writer.publish();
}

}  // namespace

TEST_CASE("a token file has the perplexity that transformers finds") {
  const Folder folder;
  for (const char* name : {"mha", "gqa_tied_llama3"}) {
    const std::string model = std::string(goldens_folder()) + "/" + name;
    const std::int64_t vocabulary =
        parse_json<nlohmann::json>(read_file(model + "/config.json"))["vocab_size"];
    const GoldenFile golden(fs::path(model) / "evaluation.safetensors");
    const std::vector<std::int32_t> ids = golden.integers("ids");
    const std::string file = folder / (std::string(name) + ".bin");
    write_tokens(file, vocabulary, ids, {});
    const std::string arguments = model + " --input " + file;
    const std::vector<std::int32_t> windows = golden.integers("windows");
    const auto check = [&](const nlohmann::json& line, const char* key) {
      const double loss = -mean(golden.values(key));
      CHECK(line["loss"].get<double>() == Approx(loss).epsilon(2e-5));
      CHECK(line["perplexity"].get<double>() == Approx(std::exp(loss)).epsilon(1e-4));
      CHECK(line["tokens"] == ids.size() - 1);
    };
    const auto whole = evaluated(folder, arguments);
    REQUIRE(whole.size() == 1);
    check(whole[0], "whole");
    CHECK(whole[0]["windows"] == 1);
    CHECK_FALSE(whole[0].contains("loss_error"));
    const auto windowed =
        evaluated(folder, arguments + " --context " + std::to_string(windows.at(0)) + " --stride " +
                              std::to_string(windows.at(1)) + " --batch 3");
    REQUIRE(windowed.size() == 1);
    check(windowed[0], "windowed");
    CHECK(windowed[0]["windows"] == 4);
    CHECK(windowed[0]["loss_error"] > 0);
    const auto int8 = evaluated(folder, arguments + " --kv-dtype int8").at(0);
    CHECK(int8["loss"] != whole[0]["loss"]);
    CHECK(int8["loss"].get<double>() == Approx(whole[0]["loss"].get<double>()).margin(1e-3));
    // Where the file says whose loss counts, that of others does not.
    std::vector<std::uint8_t> loss(ids.size());
    std::vector<double> counted;
    for (std::size_t i = 0; i < ids.size(); i += i % 5 + 1) {
      loss[i] = 1;
      if (i > 0) counted.push_back(golden.values("windowed").at(i - 1));
    }
    write_tokens(file, vocabulary, ids, loss);
    const auto masked = evaluated(folder, arguments + " --context 96 --stride 70").at(0);
    CHECK(masked["loss"].get<double>() == Approx(-mean(counted)).epsilon(2e-5));
    CHECK(masked["tokens"] == counted.size());
    CHECK_FALSE(masked.contains("bits_per_byte"));
  }
}

TEST_CASE("a run is as good as its last validation has found") {
  const Folder folder;
  const std::string model = byte_model(folder);
  double found = 0;
  for (const nlohmann::json& line : metrics(folder / "run")) {
    if (line["event"] == "eval") found = line["val_loss"];
  }
  REQUIRE(found > 0);
  // Training's rows have 32 tokens and what follows them; what is left at the end has no row.
  const auto line = evaluated(folder, model + "--context 33 --input " + (folder / "val.bin")).at(0);
  INFO(line);
  CHECK(line["loss"].get<double>() == Approx(found).epsilon(1e-3));
  // Of bytes, a token is a byte.
  CHECK(line["bits_per_byte"].get<double>() ==
        Approx(line["loss"].get<double>() / std::log(2.0)).epsilon(0.01));
}

TEST_CASE("a run's validation set has the loss of its validation, by rows, masks and packing") {
  const Folder folder;
  const std::string data = tokenize_text(folder);
  for (const std::string more : {"", "--set data.document_mask=true ",
                                 "--set data.document_mask=true --set data.packing=true ",
                                 // Rows as long as the model has positions for.
                                 "--set model.max_position_embeddings=32 "}) {
    INFO(more);
    const std::string run = "run" + std::to_string(more.size());
    const Outcome trained = strata(folder, train_tiny(folder, run, data + " " + more));
    INFO(trained.text);
    REQUIRE(trained.code == 0);
    double found = 0;
    for (const nlohmann::json& line : metrics(folder / run)) {
      if (line["event"] == "eval") found = line["val_loss"];
    }
    const std::string arguments = "evaluate " + (folder / run) + " --input " + (folder / "val.bin");
    const auto line = parse_json<nlohmann::json>(printed(folder, arguments));
    CHECK(line["loss"].get<double>() == Approx(found).epsilon(1e-5));
    CHECK(line["context"] == 33);
    // With packing a token may be padding, which is no text.
    CHECK(line.contains("bits_per_byte") == (more.find("packing") == std::string::npos));
    if (!more.empty()) continue;
    CHECK_THAT(strata(folder, arguments).text,
               ContainsSubstring("rows of 32 tokens, as the run validates"));
  }
}

TEST_CASE("a run in e4m3 has the loss of its validation with --products fp8") {
  const Folder folder;
  const std::string data = tokenize_text(folder);
  const Outcome trained =
      strata(folder, train_tiny(folder, "run",
                                data + " --set run.dtype=bf16 --set run.products=fp8_all " +
                                    "--set 'run.products_bf16=[\"down\"]'"));
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  double found = 0;
  for (const nlohmann::json& line : metrics(folder / "run")) {
    if (line["event"] == "eval") found = line["val_loss"];
  }
  const auto loss_with = [&](const std::string& more) {
    const std::string arguments =
        (folder / "run") + " --dtype bf16 --input " + (folder / "val.bin");
    return evaluated(folder, arguments + more).at(0)["loss"].get<double>();
  };
  const double plain = loss_with("");
  const double rounded = loss_with(" --products fp8");
  CAPTURE(found, plain, rounded);
  CHECK(rounded == Approx(found).epsilon(1e-5));
  CHECK(rounded != plain);
  CHECK(loss_with(" --products bf16") == plain);
  CHECK(loss_with(" --products fp8 --batch 3") == rounded);
}

TEST_CASE("evaluate says which windows it takes where no run tells") {
  const Folder folder;
  const std::string model = goldens_folder() + "/mha";
  std::vector<std::int32_t> ids(40);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i % 7);
  write_tokens(folder / "ids.bin", 67, ids, {});
  const Outcome done =
      strata(folder, "evaluate " + model + " --context 16 --input " + (folder / "ids.bin"));
  INFO(done.text);
  REQUIRE(done.code == 0);
  CHECK_THAT(done.text, ContainsSubstring("windows  3 of 16 tokens, documents not kept apart"));
}

TEST_CASE("every token of a choice is scored, the first one after the end of a document") {
  const Folder folder;
  const std::string model = byte_model(folder);
  write_file(folder / "in.jsonl",
             R"({"choices": ["a", "of document"]}
{"choices": ["a", "bc"], "answer": 1}
)");
  const auto lines = evaluated(folder, model + "--input " + (folder / "in.jsonl"));
  REQUIRE(lines.size() == 3);
  write_tokens(folder / "a.bin", 257, {256, 'a'}, {});
  const auto alone = evaluated(folder, model + "--context 2 --input " + (folder / "a.bin")).at(0);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<double> sums = lines[i]["loglikelihoods"];
    CHECK(sums.at(0) == Approx(-alone["loss"].get<double>()).epsilon(1e-5));
    CHECK(lines[i]["choice"] == std::ranges::max_element(sums) - sums.begin());
  }
}

TEST_CASE("a choice that nothing comes before follows what ends or begins texts, or is refused") {
  const Folder folder;
  const std::string model = folder / "model";
  fs::copy(goldens_folder() + "/mha", model);
  write_file(model + "/tokenizer.json",
             R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "<s>": 3, "</s>": 4},
                 "merges": []},
                 "added_tokens": [{"id": 3, "content": "<s>", "special": true},
                                  {"id": 4, "content": "</s>", "special": true}]})");
  write_file(folder / "in.jsonl", R"({"choices": ["c", "ab"]})");
  const std::string arguments = model + " --input " + (folder / "in.jsonl");
  check_refused(folder, "evaluate " + arguments, "in.jsonl:1: nothing comes before a choice");
  // The same as after a text of that token alone, whichever of the two it is.
  for (const auto& [names, id] : {std::pair{R"({"bos_token": "<s>"})", 3},
                                  {R"({"eos_token": "</s>"})", 4},
                                  {R"({"bos_token": "<s>", "eos_token": "</s>"})", 4}}) {
    INFO(names);
    write_file(model + "/tokenizer_config.json", names);
    write_tokens(folder / "ids.bin", 67, {id, 2}, {});
    const nlohmann::json alone =
        evaluated(folder, model + " --input " + (folder / "ids.bin")).at(0);
    const std::vector<double> sums = evaluated(folder, arguments).at(0)["loglikelihoods"];
    CHECK(sums.at(0) == Approx(-alone["loss"].get<double>()).epsilon(1e-5));
  }
  check_refused(folder, "evaluate " + arguments + " --truncate --context 1",
                "in.jsonl:1: has no token left to score");
}

TEST_CASE("a record that is too long is cut from the left where that is asked for, and counted",
          "[long]") {
  const Folder folder;
  const std::string model = byte_model(folder);
  std::string text;
  for (int i = 0; text.size() < 600; ++i) text += "line " + std::to_string(i) + ", ";
  text.resize(600);
  const auto records = [&](const std::string& scored, const std::string& prompt) {
    return R"({"text": ")" + scored + "\"}\n" + R"({"prompt": ")" + prompt +
           R"(", "choices": ["some words", "no"]})" + "\n";
  };
  write_file(folder / "long.jsonl", records(text, text));
  // Of 512 tokens the choices have 10 and 2.
  write_file(folder / "short.jsonl", records(text.substr(600 - 512), text.substr(600 - 502)));
  check_refused(folder, "evaluate " + model + "--input " + (folder / "long.jsonl"), "--truncate");
  const auto cut = evaluated(folder, model + "--truncate --input " + (folder / "long.jsonl"));
  const auto whole = evaluated(folder, model + "--input " + (folder / "short.jsonl"));
  REQUIRE(cut.size() == 3);
  CHECK(cut[0]["tokens"] == 511);
  CHECK(cut[0]["loglikelihood"] == whole.at(0)["loglikelihood"]);
  CHECK(cut[1]["loglikelihoods"].at(0) == whole.at(1)["loglikelihoods"].at(0));
  CHECK(cut[2]["summary"]["truncated"] == 2);
  CHECK(cut[2]["summary"]["bits_per_byte"].get<double>() ==
        Approx(whole.at(2)["summary"]["bits_per_byte"].get<double>()).epsilon(1e-12));
  CHECK(!whole.at(2)["summary"].contains("truncated"));
  check_refused(folder, "evaluate " + model + "--truncate --input " + (folder / "val.bin"),
                "--truncate: is about records");
}

TEST_CASE("likelihoods of records fit together") {
  const Folder folder;
  const std::string model = byte_model(folder);
  write_file(folder / "in.jsonl",
             R"({"text": "line 3 of"}
{"text": "line 3 of document"}
{"id": "rest", "prompt": "line 3 of", "completion": " document"}

{"id": 7, "prompt": "line 3 of", "choices": [" elephants in a room", " document", "z"], "answer": 1}
{"id": "one", "choices": ["some words", "xq"], "answer": 1}
{"id": "none", "prompt": "so", "choices": ["me", "x"]}
)");
  for (const std::string more : {"", " --batch 1", " --batch 2 --threads 1"}) {
    const auto lines =
        evaluated(folder, model + "--dtype f64 --input " + (folder / "in.jsonl") + more);
    REQUIRE(lines.size() == 7);
    CHECK(lines[0]["id"] == "1");
    CHECK(lines[0]["tokens"] == 8);
    CHECK(lines[1]["id"] == "2");
    const double rest =
        lines[1]["loglikelihood"].get<double>() - lines[0]["loglikelihood"].get<double>();
    CHECK(lines[2]["id"] == "rest");
    CHECK(lines[2]["tokens"] == 9);
    CHECK(lines[2]["loglikelihood"].get<double>() == Approx(rest).epsilon(1e-9));
    CHECK(lines[3]["id"] == "7");
    CHECK(lines[3]["loglikelihoods"].at(1).get<double>() == Approx(rest).epsilon(1e-9));
    const std::vector<double> sums = lines[3]["loglikelihoods"];
    CHECK(lines[3]["choice"] == std::ranges::max_element(sums) - sums.begin());
    const std::vector<double> by_byte{sums.at(0) / 20, sums.at(1) / 9, sums.at(2)};
    CHECK(lines[3]["choice_by_byte"] == std::ranges::max_element(by_byte) - by_byte.begin());
    CHECK(lines[3]["answer"] == 1);
    CHECK_FALSE(lines[5].contains("answer"));
    const nlohmann::json summary = lines[6]["summary"];
    CHECK(summary["questions"] == 2);
    const double right = (lines[3]["choice"] == 1 ? 0.5 : 0) + (lines[4]["choice"] == 1 ? 0.5 : 0);
    CHECK(summary["accuracy"] == right);
    CHECK(summary["accuracy_error"].get<double>() ==
          Approx(std::sqrt(right * (1 - right))).margin(1e-12));
    CHECK(summary["texts"] == 3);
    CHECK(summary["tokens"] == 8 + 17 + 9);
    const double sum = lines[0]["loglikelihood"].get<double>() +
                       lines[1]["loglikelihood"].get<double>() +
                       lines[2]["loglikelihood"].get<double>();
    CHECK(summary["loss"].get<double>() == Approx(-sum / 34).epsilon(1e-9));
    CHECK(summary["bits_per_byte"].get<double>() ==
          Approx(-sum / 34 / std::log(2.0)).epsilon(1e-9));
  }
}

TEST_CASE("all weights learn from pairs whose reference was stored, and from none other") {
  const Folder folder;
  const std::string model = goldens_folder() + "/mha";
  TokenFileWriter pairs(folder / "pairs.bin", {.vocabulary = 67});
  pairs.mark_pairs();
  for (std::int32_t answer = 0; answer < 48; ++answer) {
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < 5 + answer % 7; ++i) ids.push_back((answer * 5 + i * i) % 67);
    std::vector<std::uint8_t> loss(ids.size(), 1);
    loss[1] = 0;  // the prompt's
    pairs.append(ids, loss);
    pairs.end_document();
  }
  pairs.close();
  pairs.publish();
  const nlohmann::json config{{"run", {{"steps", 3}, {"backend", "cpu"}, {"dtype", "f32"}}},
                              {"model", {{"path", model}}},
                              {"data",
                               {{"train", folder / "pairs.bin"},
                                {"sequence_length", 64},
                                {"document_mask", true},
                                {"packing", true},
                                {"overlong", "drop"}}},
                              {"train", {{"objective", "dpo"}, {"reference", "stored"}}},
                              {"schedule", {{"rows", 2}, {"sub_batches", 2}}},
                              {"optimizer", {{"lr", 0.001}, {"gradient_dtype", "f32"}}}};
  write_file(folder / "dpo.json", json_text(config));
  const std::string train = "train " + (folder / "dpo.json") + " --output " + (folder / "run");
  check_refused(folder, train, "pairs.bin.reference: is not there");
  const std::string store = " --input " + (folder / "pairs.bin") + " --reference";
  // That nothing can be written there is known before the model is found to be too large.
  std::filesystem::create_directory(folder / "pairs.bin.reference");
  check_refused(folder, "evaluate " + model + store + " --device-memory 1KiB",
                "pairs.bin.reference: is not replaced, since it is a folder");
  std::filesystem::remove(folder / "pairs.bin.reference");
  CHECK(evaluated(folder, model + store).at(0)["pairs"] == 24);
  const Outcome trained = strata(folder, train);
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  const std::vector<double> found = losses(folder / "run");
  CHECK(found.front() == Approx(std::log(2.0)).epsilon(1e-5));
  CHECK(found.back() < found.front() - 1e-4);
  // What the run has made of the model is another one.
  CHECK(evaluated(folder, (folder / "run") + store).at(0)["pairs"] == 24);
  check_refused(folder, train + " --overwrite", "was computed by other weights than " + model);
}

TEST_CASE("what cannot be scored is refused before anything is") {
  const Folder folder;
  const std::string model = byte_model(folder);
  const std::string in = folder / "in.jsonl";
  const auto check = [&](const std::string& record, const std::string& text) {
    write_file(in, R"({"text": "first"})"
                   "\n" +
                       record + "\n");
    const Outcome outcome = strata(folder, "evaluate " + model + "--input " + in);
    INFO(record);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.text, ContainsSubstring("in.jsonl:2: ") && ContainsSubstring(text));
    CHECK_THAT(outcome.text, !ContainsSubstring("loglikelihood"));
  };
  check("{", "is not JSON");
  check("[1]", "a record is an object");
  check(R"({"prompt": "a"})", R"(has "choices", "completion" or "text")");
  check(R"({"text": 5})", "text is 5, and a text is expected");
  check(R"({"text": ""})", "has no token");
  check(R"({"choices": ["a"]})", "a list of two texts or more");
  check(R"({"choices": ["a", 5]})", "a list of texts");
  check(R"({"choices": ["a", ""]})", "choices: number 1 is empty");
  check(R"({"messages": [{"role": "user", "content": "a"}]})", "has no tokenizer");
  check(R"({"choices": ["a", "b"], "answer": 2})", "answer is 2, and the number of one of its");
  check(R"({"choices": ["a", "b"], "answer": "b"})", "a whole number");
  check(R"({"text": "a", "answer": 0})", "the number of one of its choices");
  check(R"({"text": ")" + std::string(600, 'a') + R"("})",
        "has 600 tokens, and a sequence may have 512");
  const auto refused = [&](const std::string& arguments, const std::string& text) {
    check_refused(folder, "evaluate " + model + arguments, text);
  };
  write_file(in, "\n\n");
  refused("--input " + in, "has no record");
  write_file(folder / "short.txt", "a");
  refused("--input " + (folder / "short.txt"), "has less than two tokens");
  refused("--reference --input " + (folder / "short.txt"),
          "--reference: is about a token file of pairs");
  refused("--reference --input " + (folder / "val.bin"), "val.bin holds no pairs of answers");
  write_file(folder / "records.bin", R"({"text": "some words"})");
  refused("--stride 16 --jsonl --input " + (folder / "records.bin"),
          "--stride: is about windows of one text");
  refused("--context 16 --stride 16 --input " + (folder / "val.bin"),
          "--stride 16 must be less than the tokens of a window, 16");
  refused("--context 1 --input " + (folder / "val.bin"), "--context must be at least 2");
  check_refused(folder, "evaluate " + goldens_folder() + "/mha --input " + (folder / "val.bin"),
                "val.bin: is from a tokenizer with 257 ids, but model.vocab_size is 67");
  check_refused(folder, "evaluate " + goldens_folder() + "/mha --input " + (folder / "short.txt"),
                "has no tokenizer.json");
}

}  // namespace strata::test
