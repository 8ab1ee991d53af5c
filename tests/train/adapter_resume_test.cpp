// Runs that train adapters save the adapters alone, and go on from them over the same weights: to
// the bit on as many ranks, within rounding on others. Other weights are refused.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "strata/checkpoint/manifest.h"
#include "strata/model/config.h"
#include "support/catch.h"
#include "support/places.h"
#include "support/scratch_folder.h"
#include "train/save_ways.h"
#include "train/saved_run.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kAdapterSteps = 4;
constexpr std::int64_t kSaved = 2;

RunConfig adapter_config(const Numbers& numbers, const Placement& placement = {}) {
  RunConfig config = save_config(numbers, placement);
  config.adapter = AdapterConfig{.rank = 3, .alpha = 6, .layers = {0, 2}};
  return config;
}

/// Trains all steps on `ranks` ranks, with a checkpoint on the way and one at the end.
SavedRun train_whole(const RunConfig& config, int ranks, Files& files) {
  SavedRun whole = train_and_save(config, ranks, files,
                                  {.after = {kSaved}, .at_end = true, .steps = kAdapterSteps});
  REQUIRE(whole.reports.size() == 2);
  for (const SaveReport& report : whole.reports) REQUIRE(report.failure == "");
  return whole;
}

SavedRun go_on(const RunConfig& config, int ranks, Files& files) {
  return train_and_save(config, ranks, files,
                        {.at_end = true, .from = kSaved, .steps = kAdapterSteps});
}

/// Returns what the run that goes on says where it cannot.
std::string refusal(const RunConfig& config, Files& files) {
  try {
    static_cast<void>(go_on(config, 1, files));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a checkpoint of adapters holds their files and no weights of the model") {
  MemoryFiles files(kRunFolder);
  const RunConfig config = adapter_config({});
  static_cast<void>(train_whole(config, 2, files));
  const Manifest manifest = read_manifest(files, kCheckpoints / checkpoint_name(kSaved));
  CHECK(manifest.base == BaseWeights());
  std::vector<std::string> names;
  for (const ManifestFile& file : manifest.files) names.push_back(file.path);
  CHECK(names == std::vector<std::string>{"adapter/layers.0.safetensors",
                                          "adapter/layers.2.safetensors", "model/config.json",
                                          "state/layers.0.adapter.safetensors",
                                          "state/layers.2.adapter.safetensors"});
}

TEST_CASE("a checkpoint holds what is trained whole beside the adapters, a tied embedding once") {
  const auto files_of = [](bool tied, std::vector<std::string> modules) {
    MemoryFiles files(kRunFolder);
    RunConfig config = adapter_config({.tied = tied});
    config.adapter->layers = {1};
    config.adapter->modules_to_save = std::move(modules);
    static_cast<void>(train_whole(config, 1, files));
    std::vector<std::string> names;
    for (const ManifestFile& file :
         read_manifest(files, kCheckpoints / checkpoint_name(kSaved)).files) {
      if (!file.path.starts_with("model/")) names.push_back(file.path);
    }
    return names;
  };
  const std::vector<std::string> tied{"adapter/embedding.safetensors",
                                      "adapter/layers.1.safetensors", "state/embedding.safetensors",
                                      "state/layers.1.adapter.safetensors"};
  CHECK(files_of(true, {"lm_head"}) == tied);
  const std::vector<std::string> apart{"adapter/head.safetensors", "adapter/layers.1.safetensors",
                                       "state/head.whole.safetensors",
                                       "state/layers.1.adapter.safetensors"};
  CHECK(files_of(false, {"lm_head"}) == apart);
}

TEST_CASE("a run with adapters goes on to the bit wherever its state lives") {
  for (const Numbers& numbers :
       {Numbers{}, Numbers{.dtype = DType::kF64, .ranks = 3}, Numbers{.tied = true, .ranks = 2}}) {
    for (const Placement& placement :
         {Placement{}, Placement{.timing = UpdateTiming::kOnArrival, .deferred = 1, .resident = 2},
          Placement{.interleave = 0.5}, Placement{.timing = UpdateTiming::kSpeculative}}) {
      INFO(numbers.to_string() << "; " << placement.to_string());
      MemoryFiles files(kRunFolder);
      RunConfig config = adapter_config(numbers, placement);
      config.adapter->dropout = 0.2;
      if (numbers.ranks > 1) config.adapter->modules_to_save = {"embed_tokens", "lm_head"};
      const SavedRun whole = train_whole(config, numbers.ranks, files);
      const FolderContents expected = checkpoint_contents(files, kAdapterSteps);
      remove_all(files, kCheckpoints / checkpoint_name(kAdapterSteps));
      const SavedRun resumed = go_on(config, numbers.ranks, files);
      CHECK(resumed.run.weights == whole.run.weights);
      CHECK(differences(checkpoint_contents(files, kAdapterSteps), expected) == "");
    }
  }
}

TEST_CASE("a run with adapters goes on on other ranks") {
  RunConfig config = adapter_config({.dtype = DType::kF64});
  config.schedule.rows = 1;
  config.schedule.sub_batches = 6;
  config.adapter->modules_to_save = {"embed_tokens", "norm"};
  MemoryFiles files(kRunFolder);
  const SavedRun whole = train_whole(config, 1, files);
  for (const int ranks : {2, 3}) {
    INFO(ranks << " ranks");
    config.schedule.sub_batches = 6 / ranks;
    remove_all(files, kCheckpoints / checkpoint_name(kAdapterSteps));
    const SavedRun resumed = go_on(config, ranks, files);
    for (const auto& [name, values] : whole.run.weights) {
      INFO(name);
      CHECK(relative_error(resumed.run.weights.at(name), values) < 1e-9);
    }
  }
}

TEST_CASE("adapters go on over the weights of a folder, and not over others") {
  const ScratchFolder folder;
  const fs::path base = folder.path() / "base";
  fs::create_directory(base);
  for (const char* name : {"config.json", "model.safetensors"}) {
    fs::copy_file(fs::path(goldens_folder()) / "mha" / name, base / name);
  }
  RunConfig config = adapter_config({});
  config.model.path = base.string();
  config.model.llama = load_llama_config(base / "config.json");
  config.adapter->layers.clear();
  MemoryFiles files(kRunFolder);
  const SavedRun whole = train_whole(config, 1, files);
  const Manifest manifest = read_manifest(files, kCheckpoints / checkpoint_name(kSaved));
  CHECK(manifest.base.value().folder == base.string());
  remove_all(files, kCheckpoints / checkpoint_name(kAdapterSteps));
  CHECK(go_on(config, 1, files).run.weights == whole.run.weights);

  std::fstream weights(base / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  const auto size = static_cast<std::streamoff>(fs::file_size(base / "model.safetensors"));
  for (std::streamoff at = size / 2 / 4 * 4 + 3; at < size; at += 4) {
    weights.seekp(at);
    weights.put('\x3e');
  }
  weights.close();
  CHECK_THAT(refusal(config, files),
             ContainsSubstring("were trained for other weights, those of " + base.string()));
}

}  // namespace strata::test
