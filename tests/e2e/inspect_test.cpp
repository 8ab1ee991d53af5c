// Tests what `inspect` says of checkpoints, runs and models, whole and damaged ones, by its output
// and exit codes.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "e2e/program.h"
#include "support/catch.h"

namespace strata::test {

namespace {

/// Trains a run with the checkpoints of steps 2 and 4; returns its folder.
std::string train_run(const Folder& folder, const std::string& more = "") {
  const Outcome done =
      strata(folder, train_tiny(folder, "run",
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
  return nlohmann::json::parse(shown.text);
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
