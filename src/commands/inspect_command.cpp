// `inspect` reads the manifest of a checkpoint, or the config of a model, and the headers of their
// tensor files: what they hold is known in a moment, however large they are. Only --verify reads
// what the files hold. Token files are the business of inspect_tokens.

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/inspect_step.h"
#include "commands/inspect_tokens.h"
#include "commands/tensor_files.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/file_sources.h"
#include "strata/base/json.h"
#include "strata/base/text.h"
#include "strata/base/thread_pool.h"
#include "strata/base/work_meter.h"
#include "strata/checkpoint/load_state.h"
#include "strata/commands/commands.h"
#include "strata/config/config.h"
#include "strata/runfiles/find_checkpoint.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// A key whose value is not the default.
struct ChangedKey {
  std::string path;
  std::string value;  ///< as JSON
};

/// Everything that is shown of a checkpoint or of a model.
struct Inspected {
  fs::path folder;
  LlamaConfig model;
  std::vector<ListedFile> files;
  std::uint64_t bytes = 0;  ///< of all files
  // Of a checkpoint alone:
  std::optional<Manifest> manifest;
  std::int64_t seed = 0;
  std::vector<ChangedKey> changed;
  std::vector<OtherCheckpoint> others;
};

struct Verified {
  std::uint64_t bytes = 0;
  double seconds = 0;
  [[nodiscard]] double bytes_per_s() const {
    return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
  }
};

/// Returns the keys of a run's config that differ from the defaults, but for the model's: those are
/// shown as the model.
std::vector<ChangedKey> changed_keys(const RunConfig& config) {
  std::map<std::string, std::string> defaults;
  for (const FieldText& field : field_texts(RunConfig{})) defaults[field.path] = field.value;
  std::vector<ChangedKey> changed;
  for (const FieldText& field : field_texts(config)) {
    const auto found = defaults.find(field.path);
    const bool differs = found == defaults.end() || found->second != field.value;
    if (differs && !field.path.starts_with("model.")) changed.push_back({field.path, field.value});
  }
  return changed;
}

Inspected inspect_checkpoint(NamedFolder named) {
  Inspected result;
  result.folder = named.checkpoint->folder;
  result.model = model_of(*named.checkpoint);
  const RunConfig config =
      parse_run_config(named.checkpoint->manifest.config, (result.folder / kManifestName).string());
  result.seed = config.run.seed;
  result.changed = changed_keys(config);
  result.others = std::move(named.others);
  result.manifest = std::move(named.checkpoint->manifest);
  for (const ManifestFile& file : result.manifest->files) {
    result.files.push_back(list_file(result.folder, file.path, file.bytes));
  }
  return result;
}

Inspected inspect_model(const Files& files, const fs::path& folder) {
  Inspected result;
  result.folder = folder;
  result.model = load_llama_config(folder / "config.json");
  for (const std::string& name : files.list(folder)) {
    if (!name.ends_with(".safetensors")) continue;
    result.files.push_back(list_file(folder, name, files.open(folder / name)->bytes()));
  }
  return result;
}

Verified verify(const Files& files, const Inspected& inspected) {
  ThreadPool pool(0);
  const auto threads = static_cast<std::size_t>(pool.threads());
  const std::size_t bytes = threads * kHashWindow + kFileAlignment;
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
  WindowBuffers buffers({memory.get(), bytes}, kHashWindow);
  WorkProgress work;
  work.begin("verify", {.total = inspected.bytes});
  const WorkMeter meter(work);
  verify_checkpoint(files, inspected.folder, *inspected.manifest, pool, buffers, &work);
  return {.bytes = inspected.bytes, .seconds = work.seconds()};
}

// ---- text ---------------------------------------------------------------------------------------

std::string count_text(std::int64_t count, const std::string& what) {
  return format_count(count) + " " + what + (count == 1 ? "" : "s");
}

std::string model_text(const LlamaConfig& model) {
  std::string text =
      format_count(model.parameter_count()) +
      " parameters: " + count_text(model.num_hidden_layers, "layer") + ", hidden " +
      format_count(model.hidden_size) + ", ffn " + format_count(model.intermediate_size) + ", " +
      count_text(model.num_attention_heads, "head") + " of " + format_count(model.head_size());
  if (model.kv_heads() != model.num_attention_heads) {
    text += ", " + count_text(model.kv_heads(), "kv head");
  }
  text += ", vocabulary " + format_count(model.vocab_size);
  return text + (model.tie_word_embeddings ? ", tied embeddings" : "");
}

std::string dtypes_text(const CheckpointTypes& types) {
  std::string text = "weights " + std::string(name_of(types.weight));
  if (types.are_weights_alone()) return text + " alone";
  if (types.bytes_of(StatePart::kLow) > 0) text += " with low halves (f32 together)";
  return text + (types.moments == 1 ? ", moment " : ", moments ") +
         std::string(moment_name(*types.moment));
}

std::string loss_text(const Manifest& manifest) {
  const std::string loss = manifest.loss ? fmt::format("{:.4f}", *manifest.loss) : "none";
  const std::string text = fmt::format("{}, norm {:.4f}, {}", loss, manifest.grad_norm,
                                       manifest.finite ? "finite" : "not finite");
  const std::optional<double> validation = manifest.validations.loss_of(manifest.step);
  return validation ? text + fmt::format(", validation loss {:.4f}", *validation) : text;
}

std::string checkpoint_kind(const Manifest& manifest) {
  return manifest.types.are_weights_alone() ? ", weights alone" : "";
}

std::string facts_text(const Manifest& manifest) {
  std::string text = "  step     " + format_count(manifest.step) + ", " +
                     count_text(manifest.history.updates, "update") + ", " +
                     count_text(manifest.samples, "sample");
  if (manifest.history.bad_in_a_row > 0) {
    text += ", the last " + count_text(manifest.history.bad_in_a_row, "step") + " skipped";
  }
  text += "\n  loss     " + loss_text(manifest);
  text += "\n  program  " + printable_name(manifest.program);
  return text + "\n  dtypes   " + dtypes_text(manifest.types) + "\n";
}

std::string inspected_text(const Inspected& inspected, bool every_file) {
  std::string text =
      (inspected.manifest ? "checkpoint " : "model ") + printable_name(inspected.folder.string());
  text += "\n";
  if (inspected.manifest) {
    text += facts_text(*inspected.manifest) + "  seed     " + std::to_string(inspected.seed) + "\n";
  }
  text += "  model    " + model_text(inspected.model) + "\n  files    " +
          format_count(static_cast<std::int64_t>(inspected.files.size())) + ", " +
          format_bytes(static_cast<std::size_t>(inspected.bytes)) + "\n";
  text += "\nfiles\n" + (every_file ? full_text(inspected.files) : grouped_text(inspected.files));
  if (!inspected.changed.empty()) text += "\nconfig, where it differs from the defaults\n";
  for (const ChangedKey& key : inspected.changed) {
    text += "  " + printable_name(key.path) + ": " + key.value + "\n";
  }
  if (!inspected.others.empty()) text += "\nother checkpoints of the run\n";
  for (const OtherCheckpoint& other : inspected.others) {
    text += other.manifest ? "  " + printable_name(other.folder.filename().string()) +
                                 checkpoint_kind(*other.manifest) + ": loss " +
                                 loss_text(*other.manifest) + "\n"
                           : "  not whole: " + printable_name(other.problem) + "\n";
  }
  return text;
}

std::string inspected_text(const Verified& verified, std::size_t files) {
  return "\nverified " + count_text(static_cast<std::int64_t>(files), "file") + ", " +
         format_bytes(static_cast<std::size_t>(verified.bytes)) +
         fmt::format(" in {:.2f} s, ", verified.seconds) +
         format_bytes(static_cast<std::size_t>(verified.bytes_per_s())) +
         "/s: every byte is what the manifest says\n";
}

// ---- JSON ---------------------------------------------------------------------------------------

/// Returns a number, or null for one that JSON does not have.
Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

void add_facts(Json& json, const Manifest& manifest) {
  json["step"] = manifest.step;
  json["updates"] = manifest.history.updates;
  json["samples"] = manifest.samples;
  json["bad_in_a_row"] = manifest.history.bad_in_a_row;
  json["loss"] = manifest.loss ? number_or_null(*manifest.loss) : Json();
  json["grad_norm"] = number_or_null(manifest.grad_norm);
  json["finite"] = manifest.finite;
  const std::optional<double> validation = manifest.validations.loss_of(manifest.step);
  json["validation_loss"] = validation ? Json(*validation) : Json();
  json["program"] = manifest.program;
  json["weight_dtype"] = name_of(manifest.types.weight);
  const std::optional<DType>& moment = manifest.types.moment;
  json["moment_dtype"] = moment ? Json(moment_name(*moment)) : Json();
}

Json inspected_json(const std::vector<ListedFile>& files) {
  Json list = Json::array();
  for (const ListedFile& file : files) {
    Json tensors = Json::array();
    for (const ListedTensor& tensor : file.tensors) {
      tensors.push_back({{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}});
    }
    list.push_back({{"path", file.path}, {"bytes", file.bytes}, {"tensors", std::move(tensors)}});
  }
  return list;
}

Json inspected_json(const OtherCheckpoint& other) {
  Json json{{"path", other.folder.string()}, {"whole", other.manifest.has_value()}};
  if (other.manifest) {
    add_facts(json, *other.manifest);
  } else {
    json["problem"] = other.problem;
  }
  return json;
}

Json inspected_json(const Inspected& inspected, const std::optional<Verified>& verified) {
  Json json{{"kind", inspected.manifest ? "checkpoint" : "model"},
            {"path", inspected.folder.string()}};
  if (inspected.manifest) add_facts(json, *inspected.manifest);
  json["parameters"] = inspected.model.parameter_count();
  json["model"] = parse_json<Json>(write_fields(inspected.model));
  json["bytes"] = inspected.bytes;
  json["files"] = inspected_json(inspected.files);
  if (!inspected.manifest) return json;
  json["config"] = parse_json<Json>(inspected.manifest->config);
  json["others"] = Json::array();
  for (const OtherCheckpoint& other : inspected.others)
    json["others"].push_back(inspected_json(other));
  if (!verified) return json;
  json["verified"] = {{"bytes", verified->bytes},
                      {"seconds", verified->seconds},
                      {"bytes_per_s", verified->bytes_per_s()}};
  return json;
}

// ---- options ------------------------------------------------------------------------------------

void refuse_folder_options(const InspectOptions& options, const std::string& file) {
  const char* const option = options.verify       ? "--verify"
                             : options.every_file ? "--files"
                             : options.step       ? "--step"
                             : options.ranks      ? "--ranks"
                                                  : nullptr;
  if (option == nullptr) return;
  throw ConfigError(std::string(option) + ": is about checkpoints, and " + file +
                    " is a file; name a checkpoint or a run folder");
}

void refuse_token_options(const InspectOptions& options, const fs::path& path) {
  const char* const option = options.document             ? "--document"
                             : !options.tokenizer.empty() ? "--tokenizer"
                             : !options.dtype.empty()     ? "--dtype"
                             : options.eos_token          ? "--eos-token"
                                                          : nullptr;
  std::error_code ignored;
  if (option == nullptr || !fs::is_directory(path, ignored)) return;
  throw ConfigError(std::string(option) + ": is about token files, and " + path.string() +
                    " is a folder; name a token file");
}

}  // namespace

int inspect_command(const InspectOptions& options) {
  FileSources named_files;
  named_files.list.push_back({.files = options.paths});
  expand_patterns(named_files);
  const std::vector<std::string> paths = named_files.files();
  std::error_code ignored;
  if (paths.size() > 1 || fs::is_regular_file(paths.at(0), ignored)) {
    refuse_folder_options(options, paths[0]);
    inspect_tokens(paths, options);
    return 0;
  }
  const fs::path path = paths[0];
  refuse_token_options(options, path);
  const std::unique_ptr<Files> files = make_system_files();
  NamedFolder named = find_named_folder(*files, path);
  if (options.verify && !named.checkpoint) {
    throw ConfigError("--verify: " + path.string() +
                      " is a model, of which nothing says what its bytes should be; only "
                      "checkpoints have a manifest");
  }
  if (options.ranks && !options.step) {
    throw ConfigError("--ranks: says on how many ranks the step of --step is; name one");
  }
  if (options.step) {
    if (!named.checkpoint) {
      throw ConfigError("--step: " + path.string() +
                        " is a model, which does not tell what it was trained on; name a "
                        "checkpoint or a run folder");
    }
    std::cout << step_text(*named.checkpoint, options);
    return 0;
  }
  Inspected inspected =
      named.checkpoint ? inspect_checkpoint(std::move(named)) : inspect_model(*files, path);
  for (const ListedFile& file : inspected.files) inspected.bytes += file.bytes;
  if (!options.json) std::cout << inspected_text(inspected, options.every_file) << std::flush;
  std::optional<Verified> verified;
  if (options.verify) verified = verify(*files, inspected);
  if (options.json) {
    std::cout << json_text(inspected_json(inspected, verified), 2, NotUtf8::kReplace) << '\n';
  } else if (verified) {
    std::cout << inspected_text(*verified, inspected.files.size());
  }
  return 0;
}

}  // namespace strata
