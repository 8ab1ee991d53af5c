// A folder of PEFT is known by its adapter_config.json. All other folders are looked at as those of
// models are.

#include "strata/runfiles/named_adapter.h"

#include <memory>
#include <optional>
#include <string>

#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/checkpoint/base_weights.h"
#include "strata/checkpoint/files.h"
#include "strata/model/adapters.h"
#include "strata/model/families.h"
#include "strata/model/layout.h"
#include "strata/model/peft_config.h"
#include "strata/model/weights_check.h"
#include "strata/runfiles/find_checkpoint.h"
#include "strata/runfiles/trained_adapter.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// Returns the spec of a model with adapters, whose config comes from `source`.
ModelSpec adapted(const LlamaConfig& model, const AdapterConfig& config,
                  const std::string& source) {
  ModelSpec spec = spec_of(model);
  ConfigProblems problems;
  check_adapters(config, spec, problems);
  problems.throw_if_any(source + ", for this model");
  add_adapters(spec, config);
  return spec;
}

void add_checkpoint(const Files& files, const fs::path& path, const LlamaConfig& model,
                    MergedWeights& weights) {
  const std::optional<FoundCheckpoint> found = find_named_folder(files, path).checkpoint;
  const std::optional<TrainedAdapter> trained = found ? adapter_of(*found) : std::nullopt;
  if (!trained) {
    throw ConfigError("--adapter: " + path.string() + " holds a whole model and no adapters; " +
                      "name a folder with " + std::string(kPeftConfigName) +
                      ", or a run that trained adapters");
  }
  warn_of_unsaved_steps(*found, path);
  const ModelLayout layout = make_layout(spec_of(model));
  require_shapes(weights.files(), layout);
  if (hash_of_base(weights.files(), layout) != trained->base.hash) {
    throw ConfigError(
        "--adapter: " + found->folder.string() +
        " has adapters for other weights than the model's; they were trained for " +
        (trained->base.folder.empty() ? "random ones" : "those of " + trained->base.folder));
  }
  weights.add(adapter_files(*found),
              adapted(model, trained->config, (found->folder / kManifestName).string()));
}

}  // namespace

void add_named_adapter(const fs::path& path, const LlamaConfig& model, MergedWeights& weights) {
  const std::unique_ptr<Files> files = make_system_files();
  const fs::path config = path / kPeftConfigName;
  if (files->kind(config) == Files::Kind::kNothing) {
    return add_checkpoint(*files, path, model, weights);
  }
  const ModelSpec spec = adapted(model, read_peft_config(config).adapter, config.string());
  AdapterFiles opened;
  opened.emplace_back(path / kPeftWeightsName);
  weights.add(opened, spec);
}

}  // namespace strata
