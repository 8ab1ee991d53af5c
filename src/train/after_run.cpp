// Names the checkpoint of the lowest validation loss where such are kept, since that is the model
// that a user wants. after_run.h is the contract.

#include "train/after_run.h"

#include <filesystem>
#include <system_error>

#include "strata/base/log.h"
#include "strata/base/shell_word.h"
#include "strata/checkpoint/checkpoint_save.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/train/next_step.h"

namespace strata {

namespace {

/// Returns the checkpoint of the lowest validation loss, where such are kept, or the run.
std::filesystem::path best_state(const EndedRun& run) {
  const std::filesystem::path folder = run.config.run.output;
  if (run.config.checkpoint.keep_best == 0 || !run.best_step) return folder;
  const std::filesystem::path best = run.place.folder / checkpoint_name(*run.best_step);
  std::error_code ignored;
  return std::filesystem::exists(best / kManifestName, ignored) ? best : folder;
}

}  // namespace

std::string commands_after(const EndedRun& run) {
  const std::string folder = shell_word(run.config.run.output);
  if (!run.is_saved) {
    return "strata report " + folder + "; the last state was not saved" +
           (run.config.checkpoint.at_end ? "" : " (checkpoint.at_end)") +
           (run.saved ? fmt::format("; strata export {} MODEL (takes the one after step {})",
                                    folder, *run.saved)
                      : std::string());
  }
  if (run.interrupted)
    return "the same command with --resume auto goes on; strata report " + folder;
  const std::filesystem::path model = best_state(run);
  const std::filesystem::path saved_at =
      model == run.config.run.output ? run.place.folder / checkpoint_name(run.steps) : model;
  return trying_out(model, saved_at / kModelFolder) + ", strata export " + shell_word(model) +
         " MODEL, strata report " + folder +
         (run.lacks_weights ? "; the last weights alone were not saved" : "");
}

}  // namespace strata
