// Loads, saves and tells apart run configs. Their keys are in *_fields.cpp, the rules between keys
// in *_rules.cpp.

#include "strata/config/config.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/named_folders.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/file.h"
#include "strata/base/hex.h"
#include "strata/base/json.h"
#include "strata/base/output_file.h"
#include "strata/base/random.h"
#include "strata/config/assignments.h"
#include "strata/model/families.h"
#include "strata/model/peft_config.h"

namespace strata {

namespace {

constexpr std::size_t kMostConfigBytes = 256 * kKiB;

/// Adds a problem for each key that a config gives otherwise than its model's config.json, but for
/// a larger vocabulary, which takes tokens that were added.
void compare_with_model(const LlamaConfig& loaded, const LlamaConfig& given,
                        const std::filesystem::path& file, ConfigProblems& problems) {
  for (const std::string& key : differing_fields(loaded, given)) {
    if (key == "vocab_size") {
      if (given.vocab_size > loaded.vocab_size) continue;
      problems.add("model.vocab_size", "is below that of " + file.string() + ", " +
                                           std::to_string(loaded.vocab_size) +
                                           "; a model can be given rows for more tokens, but none "
                                           "taken away: leave it out");
      continue;
    }
    problems.add("model." + key, "differs from " + file.string() + "; leave it out");
  }
}

/// The same for the keys of adapters. The format of the base and dropout are not theirs, but those
/// of who trains them. Modules of the model that are trained whole have several names.
void compare_with_adapter(const FoundAdapter& found, const AdapterConfig& given,
                          const ModelSpec& spec, ConfigProblems& problems) {
  for (const std::string& key : differing_fields(found.config, given)) {
    if (key == "path" || key == "base_format" || key == "dropout") continue;
    if (key == "modules_to_save" && peft_modules(spec, found.config.modules_to_save) ==
                                        peft_modules(spec, given.modules_to_save)) {
      continue;
    }
    problems.add("adapter." + key, "differs from " + found.source + "; leave it out");
  }
}

/// The same text read on top of what the folders say that `read`, its config, names, so that the
/// keys it does not give come from there. Keys that it does give must say the same. `path` is the
/// folder of the model, which is there.
RunConfig read_with_folders(const RunConfig& read, const std::string& path, std::string_view text,
                            std::string_view source, std::span<const std::string> sets,
                            const FindAdapter& find_adapter) {
  const std::filesystem::path file = std::filesystem::path(path) / "config.json";
  const LlamaConfig loaded = load_llama_config(file);
  std::optional<FoundAdapter> adapter;
  if (find_adapter && read.adapter && !read.adapter->path.empty()) adapter = find_adapter(read);
  RunConfig config;
  config.model.llama = loaded;
  if (adapter) config.adapter = adapter->config;
  read_fields(config, text, source, sets);
  config.model.path = path;
  ConfigProblems problems;
  compare_with_model(loaded, config.model.llama, file, problems);
  if (adapter) compare_with_adapter(*adapter, *config.adapter, spec_of(loaded), problems);
  problems.throw_if_any(source);
  if (!adapter) return config;
  config.adapter->path = adapter->folder.string();
  check_adapters(*config.adapter, spec_of(config.model.llama), problems);
  problems.throw_if_any(adapter->source + ", for the model of model.path");
  return config;
}

/// Lets the command line say how long the run is where the file says it the other way. Throws
/// ConfigError if one of them says it in steps and in epochs.
void choose_length(RunConfig& config, std::string_view text, std::string_view source,
                   std::span<const std::string> sets) {
  if (!config.run.epochs) return;
  const bool types_steps = assigns(sets, "run.steps", source);
  const bool types_epochs = assigns(sets, "run.epochs", source);
  if (types_epochs && !types_steps) config.run.steps = RunSection().steps;
  if (types_steps && !types_epochs) config.run.epochs.reset();
  if (types_steps != types_epochs) return;
  RunConfig any;
  const std::vector<std::string> given = given_paths(fields_of(any), text, source, sets);
  if (std::ranges::find(given, "run.steps") == given.end()) return;
  ConfigProblems problems;
  problems.add("run.epochs",
               "excludes run.steps, which is given as well; leave one of them out, or "
               "set this to null");
  problems.throw_if_any(source);
}

}  // namespace

RunConfig load_run_config(const std::filesystem::path& file, std::span<const std::string> sets,
                          TrainingData training_data, const FolderFinders& find) {
  require_config_file(file);
  const std::string text = read_text_file(file, kMostConfigBytes);
  const std::string source = file.string();
  RunConfig config;
  read_fields(config, text, source, sets);
  if (!config.model.path.empty()) {
    std::filesystem::path folder;
    if (find.model && is_gone(config.model.path)) folder = find.model(config);
    const std::string path = folder.empty() ? config.model.path : folder.string();
    require_model_folder(path);
    config = read_with_folders(config, path, text, source, sets, find.adapter);
  }
  choose_length(config, text, source, sets);
  expand_patterns(config.data.train);
  expand_patterns(config.data.validation);
  ConfigProblems folders;
  refuse_folders(config.data.train, "data.train", folders);
  refuse_folders(config.data.validation, "data.validation", folders);
  folders.throw_if_any(source);
  if (training_data == TrainingData::kOptional) {
    // A few steps that are measured never reach the end of a warm-up.
    if (!config.run.epochs) {
      config.optimizer.warmup_steps = std::min(config.optimizer.warmup_steps, config.run.steps);
    }
    if (config.data.train.empty()) {
      config.run.epochs.reset();
      config.data.synthetic = true;
      config.data.validation.clear();
      config.run.eval_every = 0;
    }
  }
  config.validate(source);
  return config;
}

RunConfig parse_run_config(std::string_view text, std::string_view source) {
  RunConfig config;
  read_fields(config, text, source, {});
  return config;
}

void save_run_config(const RunConfig& config, const std::filesystem::path& file) {
  std::string text = write_fields(config);
  if (config.run.epochs) {  // which excludes steps
    auto json = parse_json<nlohmann::ordered_json>(text);
    json["run"].erase("steps");
    text = json_text(json, 2) + '\n';
  }
  write_file(file.string(), text);
}

std::string config_hash(const RunConfig& config) {
  std::uint64_t hash = 0;
  for (const char c : write_fields(config)) hash = mix64(hash ^ static_cast<unsigned char>(c));
  return hex_digits(hash);
}

}  // namespace strata
