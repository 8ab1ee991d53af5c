// The manifest of a checkpoint holds the model's keys and those of the run, which has the section
// adapter.

#include "strata/runfiles/trained_adapter.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/checkpoint/base_weights.h"
#include "strata/config/config.h"
#include "strata/model/families.h"
#include "strata/model/layout.h"
#include "strata/model/weights_check.h"
#include "strata/runfiles/find_checkpoint.h"
#include "strata/runfiles/start_weights.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// Throws ConfigError unless the weights of adapters are in a folder that is there.
void require_there(const fs::path& checkpoint, const BaseWeights& base) {
  if (base.folder.empty()) {
    throw ConfigError(checkpoint.string() +
                      ": its adapters are for the random weights that its run began with, which "
                      "no file holds; train adapters over a model (model.path)");
  }
  std::error_code error;
  if (fs::exists(base.folder, error)) return;
  throw ConfigError(checkpoint.string() + ": its adapters are for the weights of " + base.folder +
                    ", which is not there, seen from this folder; call strata where the run was "
                    "started, or bring the model back");
}

/// Throws ConfigError if the weights of the folder are not those that a run has seen in this form.
void require_unchanged(const fs::path& checkpoint, const BaseWeights& base,
                       const SafetensorsDirectory& weights, const ModelLayout& layout, Form form) {
  require_shapes(weights, layout);
  if (hash_of_base(weights, layout, form) == base.hash) return;
  throw ConfigError(checkpoint.string() + ": its adapters were trained for other weights than " +
                    base.folder + " has now; bring those back");
}

}  // namespace

std::optional<TrainedAdapter> adapter_of(const FoundCheckpoint& checkpoint) {
  const Manifest& manifest = checkpoint.manifest;
  if (!manifest.base) return std::nullopt;
  const std::string source = (checkpoint.folder / kManifestName).string();
  const RunConfig run = parse_run_config(manifest.config, source);
  if (!run.adapter) {
    if (run.train.reference == ReferenceFrom::kStored) return std::nullopt;
    throw ConfigError(source + ": names the weights of adapters, and its config has no section " +
                      "adapter; the file is damaged");
  }
  TrainedAdapter trained{
      .config = *run.adapter, .spec = spec_of(model_of(checkpoint)), .base = *manifest.base};
  ConfigProblems problems;
  check_limits(fields_of(trained.config), "adapter.", problems);
  problems.throw_if_any(source);
  check_adapters(trained.config, trained.spec, problems);
  problems.throw_if_any(source);
  add_adapters(trained.spec, trained.config);
  return trained;
}

std::vector<fs::path> adapter_paths(const FoundCheckpoint& checkpoint) {
  std::vector<fs::path> paths;
  for (const ManifestFile& file : checkpoint.manifest.files) {
    if (file.path.starts_with("adapter/")) paths.push_back(checkpoint.folder / file.path);
  }
  return paths;
}

MergedWeights merged_weights_of(const FoundCheckpoint& checkpoint, const TrainedAdapter& trained) {
  const LlamaConfig model = model_of(checkpoint);
  require_there(checkpoint.folder, trained.base);
  StartWeights start =
      open_start_weights({.path = trained.base.folder, .tokenizer = {}, .llama = model});
  require_unchanged(checkpoint.folder, trained.base, start.files, make_layout(spec_of(model)),
                    trained.config.base_format);
  MergedWeights weights(std::move(start.files));
  AdapterFiles files;
  for (const fs::path& path : adapter_paths(checkpoint)) files.emplace_back(path);
  weights.add(files, trained.spec);
  return weights;
}

}  // namespace strata
