// Tests what `inspect` says of checkpoints, runs and models, whole and damaged ones, by its output
// and exit codes.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "e2e/program.h"
#include "strata/base/text.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"

namespace strata::test {

namespace {

/// Trains a run with the checkpoints of steps 2 and 4; returns its folder.
std::string train_run(const Folder& folder, const std::string& more = "") {
  const Outcome done =
      strata(folder, train_wide(folder, "run",
                                "--set checkpoint.at_end=true --set checkpoint.every_steps=2 --set "
                                "checkpoint.keep=2 " +
                                    more));
  INFO(done.text);
  REQUIRE(done.code == 0);
  return folder / "run";
}

std::string checkpoint_of(const std::string& run, int step) {
  return run + "/checkpoints/step-0000000" + std::to_string(step);
}

/// Changes one byte of a file.
void flip(const std::string& file, std::streamoff at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(at);
  const char byte = static_cast<char>(stream.get() ^ 1);
  stream.seekp(at);
  stream.put(byte);
  REQUIRE(stream.good());
}

nlohmann::json inspect_json(const Folder& folder, const std::string& arguments) {
  const Outcome shown = strata(folder, "inspect --json " + arguments);
  INFO(shown.text);
  REQUIRE(shown.code == 0);
  return parse_json<nlohmann::json>(shown.text);
}

}  // namespace

TEST_CASE("inspect of a run shows its newest checkpoint and names the others") {
  const Folder folder;
  const std::string run = train_run(folder, "--set run.dtype=bf16");
  const Outcome shown = strata(folder, "inspect " + run);
  INFO(shown.text);
  REQUIRE(shown.code == 0);
  for (const char* text :
       {"step-00000004\n", "4, 4 updates, 16 samples", ", finite", "217,792 parameters: 4 layers",
        "weights bf16 with low halves (f32 together), moments f32",
        "state/layers.0.safetensors to state/layers.3.safetensors, 4 files",
        "model.layers.{0..3}.mlp.down_proj.weight", "BF16", "[64, 176]", "optimizer.lr: 0.001",
        "seed     ", "  step-00000002: loss "}) {
    CHECK_THAT(shown.text, ContainsSubstring(text));
  }
  CHECK_THAT(shown.text, !ContainsSubstring("state/layers.1.safetensors"));
  const Outcome files = strata(folder, "inspect --files " + run);
  CHECK_THAT(files.text, ContainsSubstring("state/layers.1.safetensors") &&
                             ContainsSubstring("model.layers.2.mlp.down_proj.weight"));
}

TEST_CASE("inspect prints a checkpoint as JSON, and with --verify has read all of it") {
  const Folder folder;
  const std::string run = train_run(folder);
  const nlohmann::json json = inspect_json(folder, "--verify " + checkpoint_of(run, 2));
  CHECK(json["kind"] == "checkpoint");
  CHECK(json["step"] == 2);
  CHECK(json["samples"] == 8);
  CHECK(json["loss"] == losses(run).at(1));
  CHECK(json["parameters"] == 217792);
  CHECK(json["model"]["hidden_size"] == 64);
  CHECK(json["config"]["run"]["steps"] == 4);
  CHECK(json["verified"]["bytes"] == json["bytes"]);
  std::uintmax_t bytes = 0;
  for (const nlohmann::json& file : json["files"]) {
    const auto path = checkpoint_of(run, 2) + "/" + file["path"].get<std::string>();
    CHECK(file["bytes"] == fs::file_size(path));
    bytes += fs::file_size(path);
  }
  CHECK(json["bytes"] == bytes);
  CHECK(json["files"][1]["tensors"][0]["name"] == "model.embed_tokens.weight");
  CHECK(json["files"][1]["tensors"][0]["shape"] == nlohmann::json{257, 64});
  CHECK(inspect_json(folder, run)["others"][0]["step"] == 2);
}

TEST_CASE("inspect --step lists the samples of a step before and after the checkpoint") {
  const Folder folder;
  const std::string run = train_run(folder, tokenize_text(folder));
  for (const int step : {1, 2, 3, 7}) {
    const nlohmann::json json =
        inspect_json(folder, "--step " + std::to_string(step) + " " + checkpoint_of(run, 2));
    CHECK(json["done"] == (step <= 2));
    CHECK(json["sources"][0]["name"] == folder / "train.bin");
    REQUIRE(json["rows"].size() == 4);
    CHECK(json["rows"][0]["sample"] == 4 * (step - 1));
  }
  const Outcome table = strata(folder, "inspect --step 3 " + checkpoint_of(run, 2));
  CHECK(table.code == 0);
  CHECK_THAT(table.text, ContainsSubstring("step 3 will train on 4 samples of "));
  fs::remove(folder / "train.bin");
  const Outcome gone = strata(folder, "inspect --step 3 " + run);
  CHECK(gone.code == 2);
  CHECK_THAT(gone.text, ContainsSubstring("train.bin"));
  const Outcome model = strata(folder, "inspect --step 3 " + checkpoint_of(run, 2) + "/model");
  CHECK(model.code == 2);
  CHECK_THAT(model.text, ContainsSubstring("does not tell what it was trained on"));
}

TEST_CASE("inspect of a model shows its tensors, and has nothing to verify them by") {
  const Folder folder;
  const std::string model = checkpoint_of(train_run(folder), 4) + "/model";
  const nlohmann::json json = inspect_json(folder, model);
  CHECK(json["kind"] == "model");
  CHECK(json["parameters"] == 217792);
  CHECK(json["files"].size() == 6);
  const Outcome refused = strata(folder, "inspect --verify " + model);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("only checkpoints have a manifest"));
}

TEST_CASE("no name in a model's files makes a line of its own, or has a terminal obey") {
  const Folder folder;
  const std::string model = folder / "model";
  fs::copy(checkpoint_of(train_run(folder), 4) + "/model", model);
  const std::string header =
      R"({"x\n  forged.safetensors  1 KiB\u001b[31m\u009b\u202e": {"dtype": "F32", "shape": [1],)"
      R"( "data_offsets": [0, 4]}})";
  const std::uint64_t length = header.size();
  std::ofstream out(model + "/\x1b[1m\nx.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << header << std::string(4, '\0');
  out.close();
  const Outcome shown = strata(folder, "inspect " + model);
  INFO(shown.text);
  CHECK(shown.code == 0);
  CHECK_THAT(shown.text, ContainsSubstring("x\\n  forged.safetensors") &&
                             ContainsSubstring("\\x1b[31m\\u009b\\u202e") &&
                             ContainsSubstring("  \\x1b[1m\\nx.safetensors"));
  CHECK(shown.text == printable(shown.text));
  CHECK(strata(folder, "inspect --json " + model).text.find("\u009b") == std::string::npos);
}

TEST_CASE("a path makes no line of an error") {
  const Folder folder;
  const Outcome refused = strata(folder, "inspect \"x\nstrata: all is well\"");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, !ContainsSubstring("\nstrata: all is well"));
}

TEST_CASE("inspect names the file that is damaged") {
  const Folder folder;
  const std::string run = train_run(folder);
  const std::string newest = checkpoint_of(run, 4);
  flip(newest + "/state/head.safetensors", 5000);
  CHECK(strata(folder, "inspect " + newest).code == 0);
  const Outcome damaged = strata(folder, "inspect --verify " + newest);
  CHECK(damaged.code == 2);
  CHECK_THAT(damaged.text, ContainsSubstring("state/head.safetensors: bytes 4096 to ") &&
                               ContainsSubstring("damaged"));
  fs::resize_file(newest + "/state/embedding.safetensors", 5000);
  const Outcome torn = strata(folder, "inspect " + newest);
  CHECK(torn.code == 2);
  CHECK_THAT(torn.text, ContainsSubstring("state/embedding.safetensors: has 5000 bytes"));
  const Outcome older = strata(folder, "inspect " + run);
  CHECK(older.code == 0);
  CHECK_THAT(older.text, ContainsSubstring("checkpoint " + checkpoint_of(run, 2)) &&
                             ContainsSubstring("not whole: " + newest));
  flip(checkpoint_of(run, 2) + "/manifest.json", 40);
  const Outcome none = strata(folder, "inspect " + run);
  CHECK(none.code == 2);
  CHECK_THAT(none.text, ContainsSubstring("no checkpoint is whole") &&
                            ContainsSubstring("step-00000002/manifest.json: "));
}

TEST_CASE("inspect of token files counts what they hold") {
  const Folder folder;
  (void)tokenize_text(folder);
  const nlohmann::json train = inspect_json(folder, folder / "train.bin");
  const nlohmann::json both = inspect_json(folder, "'" + (folder / "*.bin") + "'");
  CHECK(train["kind"] == "tokens");
  CHECK(train["format"] == "strata");
  CHECK(train["version"] == 1);
  CHECK(train["id_bytes"] == 2);
  CHECK(train["vocabulary"] == 257);
  CHECK(train["largest_id"] == 256);
  CHECK(both["documents"]["count"] == 40);
  CHECK(both["documents"]["shortest"] == 8 * 33 + 1);
  CHECK(both["documents"]["longest"] == 8 * 34 + 1);
  CHECK(both["tokens"] == 10 * (8 * 33 + 1) + 30 * (8 * 34 + 1));
  CHECK(both["loss_tokens"] == both["tokens"]);
  REQUIRE(both["shards"].size() == 2);
  CHECK(both["shards"][0]["path"] == folder / "train.bin");
  CHECK(both["shards"][0]["tokens"] == train["tokens"]);
  const Outcome text = strata(folder, "inspect " + (folder / "train.bin"));
  CHECK(text.code == 0);
  CHECK_THAT(text.text, ContainsSubstring("strata, version 1, 2 bytes an id") &&
                            ContainsSubstring("of 265 to 273 tokens") &&
                            ContainsSubstring("ids        10 to 256"));
}

TEST_CASE("inspect --document shows the tokens of one document") {
  const Folder folder;
  std::ofstream(folder / "one.txt") << "first";
  std::ofstream(folder / "two.txt") << "ab\n";
  const std::string file = folder / "t.bin";
  REQUIRE(strata(folder, "tokenize " + (folder / "one.txt") + " " + (folder / "two.txt") +
                             " --output " + file)
              .code == 0);
  const nlohmann::json json = inspect_json(folder, file + " --document 2");
  CHECK(json["ids"] == nlohmann::json{97, 98, 10, 256});
  CHECK(json["loss"] == nlohmann::json{1, 1, 1, 1});
  CHECK(json["first_token"] == 6);
  CHECK(json["text"] == "ab\n");
  const Outcome shown = strata(folder, "inspect --document 1 " + file);
  CHECK(shown.code == 0);
  CHECK_THAT(shown.text, ContainsSubstring("t.bin, document 1: 6 tokens, 6 with loss\nfirst\n") &&
                             ContainsSubstring("256 loss  (end of document)"));
  const Outcome beyond = strata(folder, "inspect --document 3 " + file);
  CHECK(beyond.code == 2);
  CHECK_THAT(beyond.text, ContainsSubstring("--document: ") && ContainsSubstring("t.bin has ") &&
                              ContainsSubstring("documents 1 to 2, and none of number 3"));
  CHECK(strata(folder, "inspect --document 0 " + file).code == 2);
}

TEST_CASE("inspect --document has the text by the file's tokenizer, and by no other") {
  const Folder folder;
  const std::string gpt2 = " --tokenizer " + tokenizer_goldens_folder() + "/gpt2.json ";
  std::ofstream(folder / "one.txt") << "the first one";
  const std::string one = folder / "one.txt";
  const std::string file = folder / "t.bin";
  REQUIRE(strata(folder, "tokenize " + one + gpt2 + "--output " + file).code == 0);
  const std::string document = "inspect --document 1 " + file;
  CHECK_THAT(strata(folder, document + gpt2).text, ContainsSubstring("the first one"));
  CHECK_THAT(strata(folder, document).text, !ContainsSubstring("first"));
  const Outcome other =
      strata(folder, document + " --tokenizer " + tokenizer_goldens_folder() + "/llama3.json");
  CHECK(other.code == 2);
  CHECK_THAT(other.text, ContainsSubstring("t.bin was made by the tokenizer of "));
}

TEST_CASE("inspect counts the tokens with loss, and has the others in brackets") {
  const Folder folder;
  const std::string file = folder / "loss.bin";
  // By docs/token-files.md: header, three u16 ids, bits 0 and 2, one document.
  const std::vector<std::uint64_t> words{
      0x0a0d4b4f54525453, 0x0000000200000002, 3, 1, 900, 0, 1, 0, 0x0000000703830005, 0b101, 3};
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()),
             static_cast<std::streamsize>(words.size() * sizeof(words[0])));
  const nlohmann::json json = inspect_json(folder, file);
  CHECK(json["version"] == 2);
  CHECK(json["loss_tokens"] == 2);
  CHECK(json["vocabulary"] == 900);
  const Outcome shown = strata(folder, "inspect --document 1 " + file);
  CHECK(shown.code == 0);
  CHECK_THAT(shown.text, ContainsSubstring("3 tokens\n5 [899] 7\n"));
}

TEST_CASE("inspect shows ids of other programs, whose width and end of document are named") {
  const Folder folder;
  const std::string file = folder / "ids.bin";
  std::ofstream(file, std::ios::binary).write("\x05\x01\x02\x00\x00\x00\x07\x00", 8);
  const nlohmann::json json = inspect_json(folder, "--dtype u16 --eos-token 0 " + file);
  CHECK(json["format"] == "bare ids");
  CHECK(json["version"] == 0);
  CHECK(json["documents"]["count"] == 2);
  CHECK(json["smallest_id"] == 0);
  CHECK(json["largest_id"] == 0x105);
  CHECK(json["tokenizer"].is_null());
  CHECK(inspect_json(folder, "--dtype u16 " + file)["documents"].is_null());
  const Outcome shown = strata(folder, "inspect --dtype u16 --eos-token 0 --document 1 " + file);
  CHECK_THAT(shown.text, ContainsSubstring("3 tokens\n261 2 0\n"));
  const Outcome unknown = strata(folder, "inspect --dtype u16 --document 1 " + file);
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.text, ContainsSubstring("by --eos-token"));
  const Outcome untold = strata(folder, "inspect " + file);
  CHECK(untold.code == 2);
  CHECK_THAT(untold.text, ContainsSubstring("ids.bin: ") && ContainsSubstring("--dtype"));
}

TEST_CASE("inspect refuses options that what it is given does not have") {
  const Folder folder;
  std::ofstream(folder / "file") << "any";
  for (const std::string option : {"--verify", "--files", "--step 1", "--ranks 2"}) {
    const Outcome refused = strata(folder, "inspect " + option + " " + (folder / "file"));
    INFO(refused.text);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.text, ContainsSubstring(option.substr(0, option.find(' '))) &&
                                 ContainsSubstring("is about checkpoints"));
  }
  for (const std::string option :
       {"--document 1", "--tokenizer x", "--dtype u16", "--eos-token 2"}) {
    const Outcome refused = strata(folder, "inspect " + option + " " + (folder / ""));
    INFO(refused.text);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.text, ContainsSubstring(option.substr(0, option.find(' '))) &&
                                 ContainsSubstring("is about token files"));
  }
}

TEST_CASE("inspect refuses options that would tell nothing of token files") {
  const Folder folder;
  (void)tokenize_text(folder);
  for (const auto& [option, why] : std::vector<std::pair<std::string, std::string>>{
           {"--tokenizer " + (folder / "missing"), "--tokenizer: is for the text of a document"},
           {"--document 1 --tokenizer " + (folder / "missing"), "missing"},
           {"--dtype u16", "--dtype: "},
           {"--eos-token 2", "--eos-token: "}}) {
    const Outcome refused = strata(folder, "inspect " + option + " " + (folder / "train.bin"));
    INFO(refused.text);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.text, ContainsSubstring(why));
  }
}

TEST_CASE("inspect refuses what is no checkpoint, no run and no model") {
  const Folder folder;
  const Outcome missing = strata(folder, "inspect " + (folder / "missing"));
  CHECK(missing.code == 2);
  CHECK_THAT(missing.text, ContainsSubstring("there is nothing of this name"));
  fs::create_directory(folder / "empty");
  const Outcome empty = strata(folder, "inspect " + (folder / "empty"));
  CHECK(empty.code == 2);
  CHECK_THAT(empty.text, ContainsSubstring("neither a checkpoint, nor a run folder"));
  fs::create_directory(folder / "step-00000007");
  const Outcome no_manifest = strata(folder, "inspect " + (folder / "step-00000007"));
  CHECK(no_manifest.code == 2);
  CHECK_THAT(no_manifest.text, ContainsSubstring("has no manifest.json"));
  CHECK(strata(folder, "inspect").code == 2);
  CHECK(strata(folder, "inspect a b").code == 2);
}

}  // namespace strata::test
