// A model that was imported keeps the keys and tokenizer files of its folder, and so does one that
// goes on from a checkpoint, whose own model folder has them. small_files.h is the contract.

#include "train/small_files.h"

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "strata/base/error.h"
#include "strata/checkpoint/load_state.h"
#include "strata/launch/rank_agreement.h"
#include "strata/model/generation_defaults.h"
#include "strata/runfiles/run_folder.h"
#include "train/model_companions.h"
#include "train/read_together.h"

namespace strata {

namespace {

std::filesystem::path plans_of_run(const CheckpointPlace& place) {
  return place.run() / kPlansName;
}

/// Returns the plans of the run, and the files of the model's folder that hold no weights.
std::vector<SmallFile> small_files(const CheckpointPlace& place, const RunConfig& config,
                                   const Setup& setup, const CheckpointLayout& layout) {
  const Companions companions = companions_of_run(place, config);
  std::vector<SmallFile> files =
      model_folder_files(layout, *setup.model, config.model.llama, companions.files);
  for (SmallFile& file : files) {
    if (file.path != std::string(kModelFolder) + "config.json") continue;
    file.contents = config_text_with_ends(file.contents, companions.begin, companions.end);
  }
  const std::filesystem::path plans = plans_of_run(place);
  if (place.files->kind(plans) != Files::Kind::kNothing) {
    files.push_back({std::string(kPlansName), read_whole(*place.files, plans, kMostPlanBytes)});
  }
  return files;
}

}  // namespace

std::vector<SmallFile> agreed_small_files(const CheckpointPlace& place, const RunConfig& config,
                                          const Setup& setup, const CheckpointLayout& layout,
                                          Ranks& ranks) {
  std::vector<SmallFile> files;
  fail_together(ranks, [&] { files = small_files(place, config, setup, layout); });
  return files;
}

void restore_plans(const CheckpointPlace& place, Ranks& ranks) {
  std::optional<std::string> plans;
  const std::filesystem::path file = plans_of_run(place);
  const ReadFailure own = failure_of([&] {
    if (ranks.rank() != 0 || !place.resume) return;
    if (place.files->kind(file) != Files::Kind::kNothing) return;
    plans = read_small_file(*place.files, place.resume->folder, place.resume->manifest, kPlansName,
                            kMostPlanBytes);
  });
  meet(own, ranks);
  if (!plans) return;
  const std::filesystem::path unfinished = file.string() + ".tmp";
  if (place.files->kind(unfinished) != Files::Kind::kNothing) place.files->remove(unfinished);
  write_whole(*place.files, unfinished, std::as_bytes(std::span(*plans)));
  place.files->rename(unfinished, file);
}

}  // namespace strata
