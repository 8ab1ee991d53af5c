// A config is compared with the resolved one of the checkpoint, key by key; resume_keys.h says what
// each of them means.

#include "strata/train/resume.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <system_error>

#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/log.h"
#include "strata/base/suggestion.h"
#include "strata/base/text.h"
#include "strata/checkpoint/checkpoint_save.h"
#include "strata/launch/rank_agreement.h"
#include "strata/model/families.h"
#include "strata/model/peft_config.h"
#include "train/resume_keys.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

/// Returns all that may be allowed.
std::vector<std::string> allowable() {
  std::vector<std::string> keys;
  for (const KeyRule& rule : resume_rules()) {
    if (rule.effect != KeyEffect::kFree && rule.effect != KeyEffect::kModel &&
        rule.effect != KeyEffect::kState) {
      keys.emplace_back(rule.path);
    }
  }
  keys.emplace_back(kDataOfAnyContent);
  return keys;
}

/// Returns why nothing comes of allowing `key`, with the remedy.
std::string vain(const std::string& key, const std::vector<std::string>& keys) {
  if (key.starts_with("model.")) return "another model cannot be allowed; begin a new run";
  if (effect_of(key) == KeyEffect::kState) {
    return "moments mean something else to another optimizer, which cannot be allowed; begin a new "
           "run";
  }
  if (const auto nearest = nearest_path(key, keys)) return "did you mean " + *nearest + "?";
  std::string text = "no key of this name changes the numbers of a run; leave it out. Those are";
  for (const std::string& each : keys) text += (each == keys.front() ? " " : ", ") + each;
  return text;
}

std::optional<std::int64_t> as_step(std::string_view text) {
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(step)
                                                                  : std::nullopt;
}

/// Returns the newest whole checkpoint of a run, or nothing if it has none. Throws ConfigError if
/// it has some, of which none is whole: a run that began anew would take their place.
std::string newest_of_run(const Files& files, const ResumeRequest& request, const fs::path& run) {
  const fs::path folder = run / kCheckpointsName;
  std::vector<std::string> skipped;
  const auto found = newest_checkpoint(files, folder, skipped, request.below);
  for (const std::string& why : skipped) log::warn("passed over: {}", why);
  if (found) return found->folder.string();
  if (list_checkpoints(files, folder).empty()) return {};
  throw ConfigError("--resume " + request.from + ": none of the checkpoints in " + folder.string() +
                    " is whole, as the log says of each; bring one back, name another by --resume "
                    "DIR, begin anew in another folder (--output), or replace the run by "
                    "--overwrite, which removes them");
}

/// Returns the folder of the checkpoint that is meant, or nothing.
std::string find_folder(const Files& files, const ResumeRequest& request, const fs::path& run) {
  if (request.from == "auto") return newest_of_run(files, request, run);
  const auto step = as_step(request.from);
  const fs::path named =
      step ? run / kCheckpointsName / checkpoint_name(*step) : fs::path(request.from);
  if (files.kind(named / kManifestName) == Files::Kind::kFile) {
    static_cast<void>(read_manifest(files, named));
    return named.string();
  }
  const std::string in_run = newest_of_run(files, request, named);
  if (!in_run.empty()) return in_run;
  throw ConfigError("--resume " + request.from + ": " + named.string() +
                    " is no checkpoint, and no run folder with one; name another, or \"auto\" for "
                    "the newest whole one of the run folder");
}

/// Returns the folder that `find` finds on rank 0, or nothing; what it throws is thrown on all
/// ranks.
fs::path agreed_folder(const std::function<std::string()>& find, Ranks& ranks) {
  std::string folder;
  std::string failure;
  if (ranks.rank() == 0) {
    try {
      folder = find();
    } catch (const Error& error) {
      failure = error.what();
    }
  }
  failure = gather_texts(failure, ranks)[0];
  if (!failure.empty()) throw ConfigError(failure);
  return gather_texts(folder, ranks)[0];
}

/// Reads a checkpoint's manifest on every rank. Returns why one of them cannot, or an empty text.
std::string read_by_all(const Files& files, const fs::path& folder, Ranks& ranks,
                        Manifest& manifest) {
  std::string failure;
  try {
    manifest = read_manifest(files, folder);
  } catch (const IoError& error) {
    failure = error.what();
  }
  const std::vector<std::string> failures = gather_texts(failure, ranks);
  const auto failed = std::ranges::find_if_not(failures, &std::string::empty);
  if (failed == failures.end()) return "";
  if (failed == failures.begin()) return *failed;
  return "rank " + std::to_string(failed - failures.begin()) +
         " cannot read what rank 0 can: " + *failed +
         "; see to it that all hosts have the same folder";
}

/// Returns a config whose values say what they stand for, where a key that is not given, or is
/// "auto", stands for one that follows from other keys, and where modules of the model have several
/// names.
RunConfig spelled_out(RunConfig config, const ModelSpec& spec) {
  config.optimizer.gradient_dtype = config.gradient_dtype();
  LlamaConfig& model = config.model.llama;
  model.num_key_value_heads = model.kv_heads();
  model.head_dim = model.head_size();
  const bool scaled = model.rope_scaling && model.rope_scaling->rope_type != RopeType::kDefault;
  if (!scaled) model.rope_scaling = RopeScaling{};  // so that its keys are there to be compared
  if (config.adapter) {
    std::vector<std::string>& modules = config.adapter->modules_to_save;
    modules = peft_modules(spec, modules);
  }
  return config;
}

/// Returns whether the sources of two configs are as many, with the same weights.
bool are_mixed_alike(const FileSources& a, const FileSources& b) {
  return std::ranges::equal(a.list, b.list, {}, &FileSource::weight, &FileSource::weight);
}

/// Returns whether the learning rate of a step depends on how many there are.
bool ends_with_the_run(const OptimizerSection& optimizer) {
  return optimizer.lr_schedule != LrSchedule::kConstant;
}

/// Throws ConfigError if adapters were trained and are no longer, or the reverse.
void require_adapters_alike(const RunConfig& config, const FoundCheckpoint& checkpoint) {
  if (checkpoint.manifest.base.has_value() == config.adapter.has_value()) return;
  throw ConfigError(
      "--resume: " + checkpoint.folder.string() +
      (config.adapter ? " holds a whole model, whose weights were all trained; leave the section "
                        "adapter out, or begin a new run with adapters and model.path = " +
                            (checkpoint.folder / "model").string()
                      : std::string(" holds adapters alone; give the section adapter as it was")));
}

}  // namespace

void require_allowable(const ResumeRequest& request) {
  if (request.allowed.empty()) return;
  if (request.from.empty()) {
    throw ConfigError(
        "--allow: says what may differ from a checkpoint, and no run is resumed; name a checkpoint "
        "by --resume, or leave it out");
  }
  const std::vector<std::string> keys = allowable();
  for (const std::string& key : request.allowed) {
    if (std::ranges::count(keys, key) != 0) continue;
    throw ConfigError("--allow " + printable_name(shortened(key)) + ": " + vain(key, keys));
  }
}

std::optional<FoundCheckpoint> find_resume(const Files& files, const ResumeRequest& request,
                                           const fs::path& run_folder, Ranks& ranks) {
  if (request.from.empty()) return std::nullopt;
  FoundCheckpoint found;
  const auto find = [&] {
    try {
      return find_folder(files, request, run_folder);
    } catch (const IoError& error) {
      throw ConfigError("--resume " + request.from + ": " + error.what() +
                        std::string(kNameAnother));
    }
  };
  found.folder = agreed_folder(find, ranks);
  if (found.folder.empty()) return std::nullopt;
  const std::string why = read_by_all(files, found.folder, ranks, found.manifest);
  if (!why.empty()) throw ConfigError("--resume " + request.from + ": " + why);
  if (found.manifest.types.are_weights_alone()) {
    throw ConfigError("--resume " + request.from +
                      ": holds weights alone; name a checkpoint, or begin a new run with "
                      "model.path = " +
                      (found.folder / "model").string());
  }
  return found;
}

fs::path model_to_resume(const Files& files, const ResumeRequest& request,
                         const fs::path& run_folder) {
  if (request.from.empty()) return {};
  const fs::path folder = find_folder(files, request, run_folder);
  return folder.empty() ? folder : folder / "model";
}

std::optional<FoundCheckpoint> agree_on_checkpoint(const Files& files,
                                                   const std::function<std::string()>& find,
                                                   Ranks& ranks) {
  FoundCheckpoint found;
  found.folder = agreed_folder(find, ranks);
  if (found.folder.empty()) return std::nullopt;
  const std::string why = read_by_all(files, found.folder, ranks, found.manifest);
  if (!why.empty()) throw ConfigError(found.folder.string() + ": " + why);
  return found;
}

std::vector<std::string> compare_with_checkpoint(const RunConfig& config,
                                                 const FoundCheckpoint& checkpoint,
                                                 const ResumeRequest& request) {
  require_adapters_alike(config, checkpoint);
  const std::string source = (checkpoint.folder / kManifestName).string();
  const RunConfig before = parse_run_config(checkpoint.manifest.config, source);
  const ModelSpec spec = spec_of(config.model.llama);
  std::map<std::string, std::string, std::less<>> old;
  for (const FieldText& field : field_texts(spelled_out(before, spec)))
    old[field.path] = field.value;
  const bool names_count =
      !checkpoint.manifest.data.contents || !are_mixed_alike(before.data.train, config.data.train);
  /// Returns whether another value of a key that is given changes the numbers.
  const auto counts = [&](KeyEffect effect) {
    switch (effect) {
      case KeyEffect::kNumbers: return true;
      case KeyEffect::kSteps: return ends_with_the_run(config.optimizer);
      case KeyEffect::kLevel: return config.schedule.spill_dtype != BoundaryForm::kExact;
      case KeyEffect::kData: return names_count;
      case KeyEffect::kFree:
      case KeyEffect::kModel:
      case KeyEffect::kState: break;
    }
    return false;
  };
  const auto allows = [&](std::string_view key) {
    return std::ranges::find(request.allowed, key) != request.allowed.end();
  };
  std::vector<std::string> lines;
  std::string refused;
  for (const FieldText& field : field_texts(spelled_out(config, spec))) {
    const auto was = old.find(field.path);
    if (was == old.end() || was->second == field.value) continue;
    const KeyEffect effect = effect_of(field.path);
    // The planner may choose where and how fast, not what: there "null" is a value like others.
    const bool open = field.value == "null" || field.value == "\"auto\"";
    const bool chosen = effect == KeyEffect::kFree || effect == KeyEffect::kLevel;
    if (open && chosen) continue;
    lines.push_back(field.path + ": was " + shortened(was->second) + ", is " +
                    shortened(field.value));
    if (effect == KeyEffect::kModel) {
      refused += "\n  " + lines.back() +
                 (field.path == "model.vocab_size"
                      ? " (another model, and the state of the optimizer has no place for other "
                        "tokens: begin a new run with model.path = " +
                            (checkpoint.folder / "model").string() + ')'
                      : " (another model; this cannot be allowed)");
      continue;
    }
    if (effect == KeyEffect::kState) {
      refused += "\n  " + lines.back() +
                 " (the moments mean something else to it: begin a new run with model.path = " +
                 (checkpoint.folder / "model").string() + ')';
      continue;
    }
    const bool allowed =
        allows(field.path) || (effect == KeyEffect::kData && allows(kDataOfAnyContent));
    if (counts(effect) && !allowed) {
      refused += "\n  " + lines.back() + " (--allow " + field.path + ")";
    }
  }
  if (!refused.empty()) {
    throw ConfigError("--resume: " + checkpoint.folder.string() +
                      " was saved with other values of keys that change the numbers of the run; "
                      "set them as they were, or allow each of them:" +
                      refused);
  }
  return lines;
}

}  // namespace strata
