// The parts of a run that outlive its sessions: signals, the folder with its lock, the disk, and
// the place of the checkpoints. training_run.h is the contract.

#include "strata/train/training_run.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/log.h"
#include "strata/base/stop_signals.h"
#include "strata/checkpoint/load_state.h"
#include "strata/checkpoint/throttled_files.h"
#include "strata/launch/rank_agreement.h"
#include "strata/launch/run_ranks.h"
#include "strata/launch/watchdog.h"
#include "strata/train/data_contents.h"
#include "strata/train/epochs.h"
#include "strata/train/fresh_start.h"
#include "strata/train/patience.h"
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

/// Returns the config with a number of steps in place of epochs.
RunConfig counted_in_steps(const RunConfig& given, Ranks& ranks) {
  RunConfig config;
  fail_together(ranks, [&] { config = with_steps_of_epochs(given, ranks.size()); });
  return config;
}

class TrainingRun {
 public:
  TrainingRun(const RunConfig& given, const TrainOptions& options, Ranks& ranks)
      : ranks_(ranks),
        config_(counted_in_steps(given, ranks)),
        resume_(options.resume),
        signals_(StopSignals::Afterwards::kOutlast) {
    open_folder(options);
  }

  /// Returns the exit code.
  int run() {
    if (!find_start()) return 0;
    Watchdog watchdog(ranks_, config_.run.watchdog_s);
    Rollbacks rollbacks(config_.run.max_nonfinite_steps);
    std::optional<int> code;
    while (!code) code = train_once(watchdog, rollbacks);
    return *code;
  }

 private:
  /// Opens the run folder on rank 0, has the log written there, and removes what saves have left
  /// that did not end.
  void open_folder(const TrainOptions& options) {
    if (ranks_.rank() == 0) {
      folder_.emplace(config_.run.output,
                      options.resume.from.empty() ? options.old_run : OldRun::kResume);
    }
    ranks_.barrier(Channel::kSubmit);
    log::configure(ranks_.rank(), ranks_.size(), folder_ ? folder_->log().string() : std::string());
    log::info("folder   {}", config_.run.output);
    if (config_.debug.disk_gbs) slow_disk_.emplace(*disk_, *config_.debug.disk_gbs);
    if (!folder_) return;
    for (const std::filesystem::path& saves : save_folders(config_.run.output)) {
      remove_unfinished(files(), saves);
    }
  }

  [[nodiscard]] Files& files() {
    if (slow_disk_) return *slow_disk_;
    return *disk_;
  }

  /// Finds the checkpoint that the run goes on from, or that it begins anew. Returns whether there
  /// is something left to do. Nothing stays of a checkpoint that was found before and passed over.
  bool find_start() {
    const std::filesystem::path run_folder = config_.run.output;
    place_ = {.files = &files(), .folder = run_folder / kCheckpointsName, .resume = {}};
    place_.resume = find_resume(files(), resume_, run_folder, ranks_);
    if (!place_.resume) {
      fail_together(ranks_, [&] {
        if (folder_ && !resume_.from.empty()) require_no_past(run_folder);
      });
    } else {
      place_.skipped = place_.resume->manifest.skipped;
      if (!go_on_from(*place_.resume, config_, resume_)) return false;
    }
    if (place_.resume || config_.checkpoint.enabled()) {
      place_.data = agree_on_data(config_, place_.resume, resume_, ranks_);
    }
    return has_patience(place_, config_, resume_);
  }

  /// Trains from the place that was found, or from where the run goes back to. Returns the exit
  /// code, or nothing if the run has to begin again.
  std::optional<int> train_once(Watchdog& watchdog, Rollbacks& rollbacks) {
    if (bad_) {
      place_ = rollbacks.go_back(place_, *bad_, ranks_);
      if (ranks_.rank() == 0) log::warn("{}", rollback_text(place_, *bad_));
    }
    try {
      Trainer trainer(config_, ranks_, signals_, watchdog, folder_ ? &*folder_ : nullptr, place_,
                      rollbacks);
      const int code = end_together(ranks_, [&] { return trainer.run(); });
      if (!trainer.bad_step()) return code;
      bad_ = trainer.bad_step();
      return std::nullopt;
    } catch (const DamagedCheckpoint& damaged) {
      if (!bad_ && resume_.from != "auto") throw;
      if (ranks_.rank() == 0) log::warn("passed over: {}", damaged.what());
      return pass_over(rollbacks);
    } catch (const Interrupted& interrupted) {
      log::info("{} before the first step", interrupted.what());
      return place_.resumes_own() ? kSavedExitCode : interrupted.exit_code();
    }
  }

  /// Leaves the checkpoint behind that the run was to go on from. Returns the exit code if there is
  /// nothing left to do.
  std::optional<int> pass_over(const Rollbacks& rollbacks) {
    if (bad_) {
      rollbacks.require_possible(*bad_);
      if (ranks_.rank() == 0) set_aside_damaged(place_);
      return std::nullopt;
    }
    resume_.below = place_.resume->manifest.step;
    return find_start() ? std::nullopt : std::optional(0);
  }

  Ranks& ranks_;
  const RunConfig config_;
  ResumeRequest resume_;
  StopSignals signals_;
  std::optional<RunFolder> folder_;  ///< on rank 0
  std::unique_ptr<Files> disk_ = make_system_files();
  std::optional<ThrottledFiles> slow_disk_;  ///< stands before the disk with debug.disk_gbs
  CheckpointPlace place_;
  std::optional<BadStep> bad_;  ///< that the run goes back from
};

}  // namespace

int run_training(const RunConfig& config, const TrainOptions& options, Ranks& ranks) {
  return TrainingRun(config, options, ranks).run();
}

}  // namespace strata
