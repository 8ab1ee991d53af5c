// A run folder and a Hugging Face model both have a config.json, so what only one of them has
// decides: a manifest, a folder of checkpoints, files of weights.

#include "strata/runfiles/find_checkpoint.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/checkpoint/checkpoint_save.h"
#include "strata/model/other_weights.h"
#include "strata/runfiles/metrics.h"
#include "strata/runfiles/run_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

bool holds_weights(const Files& files, const fs::path& folder) {
  const std::vector<std::string> names = files.list(folder);
  return std::ranges::count(names, "config.json") > 0 &&
         std::ranges::any_of(
             names, [](const std::string& name) { return name.ends_with(".safetensors"); });
}

/// Looks at a checkpoint that may be the one that is meant: throws IoError where the system does
/// not tell whether it is whole.
OtherCheckpoint look_closely(const Files& files, const fs::path& folder) {
  try {
    return {.folder = folder, .manifest = read_manifest(files, folder), .problem = {}};
  } catch (const DamagedFile& error) {
    return {.folder = folder, .manifest = {}, .problem = error.what()};
  }
}

OtherCheckpoint look_at(const Files& files, const fs::path& folder) {
  try {
    return look_closely(files, folder);
  } catch (const IoError& error) {
    return {.folder = folder, .manifest = {}, .problem = error.what()};
  }
}

/// Returns the newest whole checkpoint of a folder with the others.
NamedFolder newest_of(const Files& files, const fs::path& folder) {
  NamedFolder result;
  std::string problems;
  std::vector<std::int64_t> newest_first = list_checkpoints(files, folder);
  std::ranges::reverse(newest_first);
  for (const std::int64_t step : newest_first) {
    const fs::path checkpoint = folder / checkpoint_name(step);
    OtherCheckpoint one =
        result.checkpoint ? look_at(files, checkpoint) : look_closely(files, checkpoint);
    if (one.manifest && !result.checkpoint) {
      result.checkpoint = {std::move(one.folder), std::move(*one.manifest)};
      continue;
    }
    problems += "\n  " + printable_name(one.problem);
    result.others.push_back(std::move(one));
  }
  if (!result.checkpoint) throw IoError(folder.string() + ": no checkpoint is whole:" + problems);
  for (const std::string& name : files.list(folder)) {
    if (is_abandoned_name(name)) result.others.push_back(look_at(files, folder / name));
    if (!name.starts_with(kTemporaryPrefix)) continue;
    result.others.push_back(
        {.folder = folder / name,
         .manifest = {},
         .problem = (folder / name).string() + ": a save or a deletion that did not end, or that " +
                    "is at work; the next start of the run removes what is left over"});
  }
  return result;
}

}  // namespace

NamedFolder find_named_folder(const Files& files, const fs::path& path) {
  std::error_code error;
  const fs::path folder = fs::is_symlink(path, error) ? fs::canonical(path, error) : path;
  const fs::path named =
      folder.has_filename() ? folder.filename() : folder.parent_path().filename();
  if (error && error != std::errc::no_such_file_or_directory) {
    throw IoError(path.string() + ": the link cannot be followed: " + error.message());
  }
  if (error || files.kind(folder) == Files::Kind::kNothing) {
    throw IoError(path.string() + ": there is nothing of this name");
  }
  if (files.kind(folder) == Files::Kind::kFolder) {
    const bool has_manifest = files.kind(folder / kManifestName) != Files::Kind::kNothing;
    if (has_manifest || step_of_name(named.string())) {
      return {.checkpoint = FoundCheckpoint{folder, read_manifest(files, folder)}, .others = {}};
    }
    if (!list_checkpoints(files, folder).empty()) return newest_of(files, folder);
    const fs::path weights = folder / kWeightsName;
    const std::vector<std::int64_t> of_weights = list_checkpoints(files, weights);
    if (!list_checkpoints(files, folder / kCheckpointsName).empty()) {
      NamedFolder result = newest_of(files, folder / kCheckpointsName);
      for (const std::int64_t step : of_weights) {
        result.others.push_back(look_at(files, weights / checkpoint_name(step)));
      }
      return result;
    }
    if (!of_weights.empty()) return newest_of(files, weights);
    if (holds_weights(files, folder)) return {};
    const std::string others = other_weights(folder);
    const std::string why = others.empty() ? snapshots_of(folder) : others;
    if (!why.empty()) throw IoError(path.string() + ": " + why);
  }
  throw IoError(path.string() +
                ": is neither a checkpoint, nor a run folder with one, nor the folder of a Hugging "
                "Face model; name a folder such as RUN, RUN/" +
                std::string(kCheckpointsName) + "/" + checkpoint_name(1000) + " or a model");
}

void warn_of_unsaved_steps(const FoundCheckpoint& found, const fs::path& path) {
  std::error_code ignored;
  if (fs::equivalent(path, found.folder, ignored)) return;
  const fs::path run = found.folder.parent_path().parent_path();
  const std::int64_t done = last_step_in(run / kMetricsName).value_or(0);
  if (done <= found.manifest.step) return;
  log::warn("{}: the run has done {} steps, and its newest state that is saved is of step {}",
            run.string(), done, found.manifest.step);
}

LlamaConfig model_of(const FoundCheckpoint& checkpoint) {
  const std::string source = (checkpoint.folder / kManifestName).string() + ": model";
  LlamaConfig model;
  read_fields(model, checkpoint.manifest.model, source);
  ConfigProblems problems;
  model.validate(problems, "");
  problems.throw_if_any(source);
  return model;
}

}  // namespace strata
