// The self-test of checkpoints within one process: a run that is given up behind a checkpoint and
// taken up from it ends as one that was never interrupted.

#include <filesystem>
#include <string>

#include "doctor/tiny_training.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/checkpoint/checkpoint_folder.h"

namespace strata {

namespace {

constexpr std::int64_t kResumedSteps = 6;
constexpr std::int64_t kSaved = 3;    // steps done when the checkpoint is taken
constexpr std::int64_t kGivenUp = 5;  // steps done when the run is given up

/// Streams, so that state lives on the host, as it does where it matters.
RunConfig config_of(const SelfTestOptions& options) {
  RunConfig config = tiny_training(options);
  config.run.steps = kResumedSteps;
  config.schedule.resident_units = 0;
  config.checkpoint.every_steps = kSaved;
  return config;
}

/// Trains, saves on the way and stops behind the checkpoint, as a run does that is killed there.
void train_and_give_up(const SelfTestOptions& options, Ranks& ranks, const CheckpointPlace& place) {
  SessionHooks hooks = hooks_of(options);
  hooks.checkpoints = place;
  Session session(config_of(options), ranks, hooks);
  const double lr = session.config().optimizer.lr;
  for (std::int64_t step = 0; step < kGivenUp; ++step) {
    session.submit(step, lr, {.whole = step + 1 == kSaved});
  }
  session.synchronize();
  session.checkpoints()->wait();
  for (const SaveReport& report : session.checkpoints()->take_reports()) {
    if (!report.failure.empty()) throw IoError(report.failure);
  }
}

TrainingResult go_on(const SelfTestOptions& options, Ranks& ranks, CheckpointPlace place) {
  std::vector<std::string> passed_over;
  place.resume = newest_checkpoint(*place.files, place.folder, passed_over);
  if (!place.resume) {
    throw IoError(place.folder.string() + ": there is no whole checkpoint to go on from" +
                  (passed_over.empty() ? "" : ": " + passed_over.front()));
  }
  SessionHooks hooks = hooks_of(options);
  hooks.checkpoints = place;
  Session session(config_of(options), ranks, hooks);
  train_steps(session, session.first_step(), kResumedSteps);
  return result_of(session);
}

/// Returns what a whole run left of the steps behind the checkpoint.
TrainingResult since_saved(TrainingResult result) {
  result.losses.erase(result.losses.begin(), result.losses.begin() + kSaved);
  result.norms.erase(result.norms.begin(), result.norms.begin() + kSaved);
  return result;
}

}  // namespace

std::vector<Finding> check_resume(const SelfTestOptions& options) {
  SingleRank single(options);
  const std::unique_ptr<Files> own = options.files == nullptr ? make_system_files() : nullptr;
  const std::filesystem::path run = options.scratch / "resume";
  const CheckpointPlace place{
      .files = own ? own.get() : options.files, .folder = run / kCheckpointsName, .resume = {}};
  if (place.files->kind(run) == Files::Kind::kNothing) place.files->make_folder(run);
  TrainingResult whole;
  {
    Session session(config_of(options), single.ranks(), hooks_of(options));
    train_steps(session, 0, kResumedSteps);
    whole = since_saved(result_of(session));
  }
  train_and_give_up(options, single.ranks(), place);
  const TrainingResult resumed = go_on(options, single.ranks(), place);
  const std::string difference = first_difference(resumed, whole, kSaved);
  Finding finding{.name = "save and resume",
                  .found = fmt::format("saved behind step {}, gone on to step {} with the bits of "
                                       "a run that was not interrupted",
                                       kSaved, kResumedSteps)};
  if (!difference.empty()) {
    finding.verdict = Verdict::kBad;
    finding.found = "gone on from a checkpoint: " + difference + " of an uninterrupted run";
    finding.remedy = remedy_of_wrong_numbers(
        options.backend,
        "run this again with --folder on another disk: if that is fine, suspect this one");
  }
  return {finding};
}

}  // namespace strata
