// `train` opens the run folder, finds the checkpoint that a run goes on from, and trains; a run
// that goes back from a bad step, or passes over a damaged checkpoint, begins again here with a new
// session. All ranks run it.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/log.h"
#include "strata/base/stop_signals.h"
#include "strata/checkpoint/load_state.h"
#include "strata/checkpoint/throttled_files.h"
#include "strata/commands/commands.h"
#include "strata/launch/rank_agreement.h"
#include "strata/launch/run_ranks.h"
#include "strata/launch/watchdog.h"
#include "strata/runfiles/run_folder.h"
#include "strata/train/data_contents.h"
#include "strata/train/epochs.h"
#include "strata/train/fresh_start.h"
#include "strata/train/patience.h"
#include "strata/train/resume.h"
#include "strata/train/rollback.h"
#include "strata/train/trainer.h"

namespace strata {

namespace {

/// Says that there is nothing left to do: whoever starts a run again until it is done need not look
/// whether it is. Throws ConfigError where a checkpoint was named.
void say_done(const std::string& why, const ResumeRequest& request) {
  if (request.from != "auto") throw ConfigError("--resume: " + why);
  log::info("done: {}", why);
}

/// Says from where a run goes on, and what is different now. Returns whether steps are left to do.
/// Throws ConfigError if too much is different.
bool go_on_from(const FoundCheckpoint& checkpoint, const RunConfig& config,
                const ResumeRequest& request) {
  const std::vector<std::string> differences = compare_with_checkpoint(config, checkpoint, request);
  log::info("resumes  {} (step {})", checkpoint.folder.string(), checkpoint.manifest.step);
  for (const std::string& line : differences) log::info("         {}", line);
  if (checkpoint.manifest.step < config.run.steps) return true;
  say_done(checkpoint.folder.string() + " has done " + std::to_string(checkpoint.manifest.step) +
               " steps, and run.steps is " + std::to_string(config.run.steps) +
               "; raise it to go on",
           request);
  return false;
}

/// Returns whether validations leave something to gain.
bool has_patience(const CheckpointPlace& place, const RunConfig& config,
                  const ResumeRequest& request) {
  const Validations found = place.validations();
  if (!is_out_of_patience(config.run, found)) return true;
  say_done(place.resume->folder.string() + ": " + without_gain_text(found) +
               "; raise run.patience to go on, or set it to 0",
           request);
  return false;
}

/// Says where a run goes on that has gone back.
std::string rollback_text(const CheckpointPlace& place, const BadStep& bad) {
  const SampleWindow& skipped = place.skipped.back();
  return fmt::format(
      "step {}: {}; the run goes back to {} and leaves out samples {} to {} of the data",
      bad.step + 1, bad.what,
      place.resume ? place.resume->folder.string() : std::string("its beginning"), skipped.begin,
      skipped.end - 1);
}

}  // namespace

int train_command(const LoadConfig& load, const TrainOptions& options) {
  const LoadConfig checked = [&] {
    require_allowable(options.resume);
    return load();
  };
  return on_all_ranks("train", checked, [&](Ranks& ranks, const RunConfig& given) {
    RunConfig config;
    fail_together(ranks, [&] { config = with_steps_of_epochs(given, ranks.size()); });
    StopSignals signals(StopSignals::Afterwards::kOutlast);
    std::optional<RunFolder> folder;
    if (ranks.rank() == 0) {
      folder.emplace(config.run.output,
                     options.resume.from.empty() ? options.old_run : OldRun::kResume);
    }
    ranks.barrier(Channel::kSubmit);
    log::configure(ranks.rank(), ranks.size(), folder ? folder->log().string() : std::string());
    log::info("folder   {}", config.run.output);
    const std::unique_ptr<Files> disk = make_system_files();
    std::optional<ThrottledFiles> slow_disk;
    if (config.debug.disk_gbs) slow_disk.emplace(*disk, *config.debug.disk_gbs);
    Files* const files = slow_disk ? &*slow_disk : disk.get();
    const std::filesystem::path run_folder = config.run.output;
    CheckpointPlace place;
    if (folder) {
      for (const std::filesystem::path& saves : save_folders(run_folder)) {
        remove_unfinished(*files, saves);
      }
    }
    ResumeRequest resume = options.resume;
    const auto find = [&] {
      // Anew: nothing of a checkpoint that was passed over stays.
      place = {.files = files, .folder = run_folder / kCheckpointsName, .resume = {}};
      place.resume = find_resume(*files, resume, run_folder, ranks);
      if (!place.resume) {
        fail_together(ranks, [&] {
          if (folder && !resume.from.empty()) require_no_past(run_folder);
        });
      } else {
        place.skipped = place.resume->manifest.skipped;
        if (!go_on_from(*place.resume, config, resume)) return false;
      }
      if (place.resume || config.checkpoint.enabled()) {
        place.data = agree_on_data(config, place.resume, resume, ranks);
      }
      return has_patience(place, config, resume);
    };
    if (!find()) return 0;
    Watchdog watchdog(ranks, config.run.watchdog_s);
    Rollbacks rollbacks(config.run.max_nonfinite_steps);
    std::optional<BadStep> bad;  // that the run goes back from
    while (true) {
      if (bad) {
        place = rollbacks.go_back(place, *bad, ranks);
        if (ranks.rank() == 0) log::warn("{}", rollback_text(place, *bad));
      }
      try {
        Trainer trainer(config, ranks, signals, watchdog, folder ? &*folder : nullptr, place,
                        rollbacks);
        const int code = end_together(ranks, [&] { return trainer.run(); });
        if (!trainer.bad_step()) return code;
        bad = trainer.bad_step();
      } catch (const DamagedCheckpoint& damaged) {
        if (!bad && resume.from != "auto") throw;
        if (ranks.rank() == 0) log::warn("passed over: {}", damaged.what());
        if (bad) {
          rollbacks.require_possible(*bad);
          if (ranks.rank() == 0) set_aside_damaged(place);
          continue;
        }
        resume.below = place.resume->manifest.step;
        if (!find()) return 0;
      } catch (const Interrupted& interrupted) {
        log::info("{} before the first step", interrupted.what());
        return place.resumes_own() ? kSavedExitCode : interrupted.exit_code();
      }
    }
  });
}

}  // namespace strata
