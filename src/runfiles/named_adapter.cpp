// A folder of PEFT is known by its adapter_config.json. All other folders are looked at as those of
// models are.

#include "strata/runfiles/named_adapter.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/text.h"
#include "strata/checkpoint/base_weights.h"
#include "strata/checkpoint/files.h"
#include "strata/model/adapters.h"
#include "strata/model/families.h"
#include "strata/model/peft_config.h"
#include "strata/model/weights_check.h"
#include "strata/runfiles/find_checkpoint.h"
#include "strata/runfiles/start_weights.h"
#include "strata/runfiles/trained_adapter.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStartKey = "adapter.path";

/// Returns the spec of a model with adapters.
ModelSpec adapted(const LlamaConfig& model, const FoundAdapter& found) {
  ModelSpec spec = spec_of(model);
  ConfigProblems problems;
  check_adapters(found.config, spec, problems);
  problems.throw_if_any(found.source + ", for this model");
  add_adapters(spec, found.config);
  return spec;
}

AdapterFiles open_files(const NamedAdapter& named) {
  AdapterFiles files;
  for (const fs::path& file : named.files) files.emplace_back(file);
  return files;
}

NamedAdapter find_checkpoint_adapter(const Files& files, const fs::path& path,
                                     std::string_view option) {
  const std::optional<FoundCheckpoint> found = find_named_folder(files, path).checkpoint;
  const std::optional<TrainedAdapter> trained = found ? adapter_of(*found) : std::nullopt;
  if (!trained) {
    throw ConfigError(std::string(option) + ": " + path.string() +
                      " holds a whole model and no adapters; name a folder with " +
                      std::string(kPeftConfigName) + ", or a run that trained adapters");
  }
  warn_of_unsaved_steps(*found, path);
  return {.found = {.folder = found->folder,
                    .source = (found->folder / kManifestName).string(),
                    .config = trained->config},
          .files = adapter_paths(*found),
          .base = trained->base};
}

/// Throws ConfigError if a checkpoint's adapters were trained for other weights than `hash` is of.
void require_base(const NamedAdapter& named, std::uint64_t hash, std::string_view option) {
  if (!named.base || named.base->hash == hash) return;
  throw ConfigError(
      std::string(option) + ": " + named.found.folder.string() +
      " has adapters for other weights than the model's; they were trained for " +
      (named.base->folder.empty() ? "random ones" : "those of " + named.base->folder));
}

}  // namespace

NamedAdapter find_named_adapter(const fs::path& path, std::string_view option) {
  const std::unique_ptr<Files> files = make_system_files();
  const fs::path config = path / kPeftConfigName;
  if (files->kind(config) == Files::Kind::kNothing) {
    return find_checkpoint_adapter(*files, path, option);
  }
  return {.found = {.folder = path, .source = config.string(), .config = read_peft_config(config)},
          .files = {path / kPeftWeightsName},
          .base = {}};
}

void add_named_adapter(const fs::path& path, const LlamaConfig& model, MergedWeights& weights) {
  constexpr std::string_view kOption = "--adapter";
  const NamedAdapter named = find_named_adapter(path, kOption);
  if (named.base) {
    const ModelLayout layout = make_layout(spec_of(model));
    require_shapes(weights.files(), layout);
    const Form form = named.found.config.base_format;
    require_base(named, hash_of_base(weights.files(), layout, form), kOption);
  }
  weights.add(open_files(named), adapted(model, named.found));
}

FoundAdapter find_start_adapter(const RunConfig& config) {
  const std::string& path = config.adapter.value().path;
  std::error_code error;
  if (!fs::exists(path, error)) {
    // Where the system says why, the path may be too long for it.
    throw IoError(std::string(kStartKey) + ": " + printable_name(error ? shortened(path) : path) +
                  ": " + (error ? error.message() : "there is nothing of this name"));
  }
  return find_named_adapter(path, kStartKey).found;
}

void check_start_adapter(const RunConfig& config, const ModelLayout& layout) {
  require_one_embedding(open_start_adapter(config, layout), layout);
}

AdapterFiles open_start_adapter(const RunConfig& config, const ModelLayout& layout) {
  if (!config.adapter || config.adapter->path.empty()) return {};
  const NamedAdapter named = find_named_adapter(config.adapter->path, kStartKey);
  AdapterFiles files = open_files(named);
  require_adapters(files, layout);
  if (named.base) {
    const Form form = named.found.config.base_format;
    require_base(named, base_weights_in(form, config.model).hash, kStartKey);
  }
  return files;
}

}  // namespace strata
