// The loop over the steps of a run: submits them, validates, samples and saves when it is due, and
// reports what has finished. trainer.h is the contract.

#include "strata/train/trainer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "strata/base/log.h"
#include "strata/base/process.h"
#include "strata/predict/prediction.h"
#include "strata/train/agenda.h"
#include "strata/train/lr_schedule.h"
#include "strata/train/next_step.h"
#include "strata/train/patience.h"
#include "strata/train/resume.h"
#include "strata/train/run_tokenizer.h"
#include "strata/train/step_report.h"
#include "train/after_run.h"
#include "train/run_saves.h"
#include "train/training_report.h"

namespace strata {

namespace {

/// Stands among signals for a bad step, before all of them.
constexpr int kBadStep = 1000;

}  // namespace

Trainer::Trainer(const RunConfig& config, Ranks& ranks, StopSignals& signals, Watchdog& watchdog,
                 const RunFolder* folder, const CheckpointPlace& place, const Rollbacks& rollbacks)
    : ranks_(ranks),
      signals_(signals),
      watchdog_(watchdog),
      folder_(folder),
      place_(place),
      rollbacks_(rollbacks),
      time_limit_(config.run.wall_limit, first() ? slurm_left_s() : std::nullopt),
      session_(config, ranks,
               {.trace = &recorder_,
                .checkpoints = place,
                .run_folder = config.run.output,
                .may_end = [this] { end_if_asked(); }}),
      config_(session_.config()),
      validations_(place.validations()),
      done_(place.first_step()) {
  saves_ = std::make_unique<RunSaves>(config_, place_, session_.checkpoints(), ranks_);
}

Trainer::~Trainer() { log::live(""); }

int Trainer::run() {
  start();
  std::optional<Interrupted> interrupted;
  try {
    interrupted = train();
  } catch (const BadStep& bad) {
    log::live("");
    saves_->tell(validations_);  // what is being saved ends
    if (report_) report_->rollback(bad);
    return 0;
  } catch (...) {
    report_finished();  // the last lines tell why
    if (report_) report_->error();
    throw;
  }
  const bool saved = save_at_end();
  const MemoryReport memory = measure_memory(session_);
  log::debug("{}", to_string(memory));
  if (report_) report_->end(ending(interrupted), memory);
  if (first()) {
    say_next(commands_after(
        {.config = config_,
         .place = place_,
         .steps = done_,
         .is_saved = saved,
         .saved = saves_->saved(),
         .best_step = validations_.best ? std::optional(validations_.best->step) : std::nullopt,
         .interrupted = interrupted.has_value(),
         .lacks_weights = saves_->failed().weights}));
  }
  return exit_code(saved, interrupted);
}

/// Returns why the run has ended.
Ending Trainer::ending(const std::optional<Interrupted>& interrupted) const {
  if (interrupted)
    return {.reason = signal_name(interrupted->signal()), .text = interrupted->what()};
  if (!out_of_patience()) return {};
  return {.reason = "patience", .text = without_gain_text(validations_)};
}

/// Returns the same on all ranks, which saves are committed or fail on together.
int Trainer::exit_code(bool saved, const std::optional<Interrupted>& interrupted) const {
  if (interrupted && saved) return kSavedExitCode;
  if (saves_->failed().any()) return kUnsavedExitCode;
  return interrupted ? interrupted->exit_code() : 0;
}

void Trainer::start() {
  log::debug("memory plan:\n{}", session_.setup().to_string());
  for (const PlacementChoice& choice : session_.choices()) log::debug("{}", choice.to_string());
  if (!first()) return;
  if (saves_->any()) set_aside_what_is_left_behind();
  for (const std::string& line : summary(session_, ranks_.size())) log::info("{}", line);
  save_run_config(config_, folder_->config());
  write_run_tokenizer(place_, config_, session_.checkpoints());
  report_ = std::make_unique<TrainingReport>(session_, *folder_, place_, ranks_.size());
  for (const std::string& why : remove_set_aside(*place_.files, place_.given_up)) {
    log::warn("not removed: {}", why);
  }
}

/// Makes way for the checkpoints that this run will save where an earlier one got further.
void Trainer::set_aside_what_is_left_behind() const {
  std::string aside;
  for (const std::filesystem::path& saves : save_folders(place_.run())) {
    for (const std::filesystem::path& folder :
         set_aside_later_checkpoints(*place_.files, saves, place_.first_step())) {
      aside += "\n  " + folder.string();
    }
  }
  if (aside.empty()) return;
  log::warn(
      "checkpoints of later steps than {} are set aside: strata neither removes them nor takes "
      "them by --resume auto; name one to go on from it, or remove it:{}",
      place_.first_step(), aside);
}

/// Runs all steps and validations, or those until a signal came, which it returns. Then the steps
/// that were submitted are done.
std::optional<Interrupted> Trainer::train() {
  const Watchdog::Scope watched =
      watchdog_.watch(session_.device(), [this] { return session_.collectives_failure(); });
  try {
    steps();
    if (session_.has_validation() && done_ == config_.run.steps) evaluate(done_);
    return std::nullopt;
  } catch (const Interrupted& interrupted) {
    signal_told_ = true;
    log::info(
        "{}: the run ends when the submitted steps are done, or at once when the signal "
        "comes again",
        signal_name(interrupted.signal()));
    synchronize();
    require_good_steps();
    return interrupted;
  }
}

void Trainer::steps() {
  reference_s_ = steady_seconds();
  begin_work_.begin("first step");
  first_step_.emplace(begin_work_);
  const std::optional<std::int64_t> traced = first_traced(config_.run);
  while (done_ < config_.run.steps && !out_of_patience()) {
    take_save_request();
    saves_->look_ahead(done_, longest_step_s_);
    end_if_asked();
    if (done_ == traced) {
      trace(done_);
    } else {
      submit(done_);
    }
    report_finished();
    if (validation_due(config_.run, done_)) evaluate(done_);
    if (samples_due(config_.run, done_)) sample(done_);
  }
  synchronize();
  require_good_steps();
}

void Trainer::submit(std::int64_t step) {
  const SaveKinds due = saves_->due(step + 1, is_validated(step + 1));
  const double lr = lr_at(config_.optimizer, config_.run.steps, step);
  saves_->begun(session_.submit(step, lr, due), step + 1);
  done_ = step + 1;
  report_saves();
}

void Trainer::synchronize() {
  session_.synchronize();
  report_finished();
}

void Trainer::evaluate(std::int64_t done) {
  synchronize();  // a validation may take long
  require_good_steps();
  WorkProgress work;
  work.begin(fmt::format("validation after step {}", done),
             {static_cast<std::uint64_t>(session_.validation_passes()), "passes"});
  std::optional<WorkMeter> meter(std::in_place, work);
  const double loss = session_.evaluate(&work);
  meter.reset();
  reference_s_ = steady_seconds();
  if (goes_by_validations(config_)) validations_.add(done, loss);  // all ranks have the same bits
  saves_->tell(validations_);
  if (report_) report_->validation(done, loss, work.seconds());
}

/// Returns whether a validation follows when so many steps are done.
bool Trainer::is_validated(std::int64_t done) const {
  return validation_due(config_.run, done) ||
         (session_.has_validation() && done == config_.run.steps);
}

bool Trainer::out_of_patience() const { return is_out_of_patience(config_.run, validations_); }

void Trainer::sample(std::int64_t done) {
  synchronize();
  require_good_steps();
  WorkProgress work;
  work.begin(fmt::format("samples after step {}", done));
  std::optional<WorkMeter> meter(std::in_place, work);
  const std::vector<RunSample> samples = session_.sample(done);
  meter.reset();
  reference_s_ = steady_seconds();
  if (report_) report_->samples(done, samples);
}

void Trainer::trace(std::int64_t step) {
  trace_two_steps(session_, recorder_, step, [this](std::int64_t s) { submit(s); });
  const Watchdog::Scope unwatched = watchdog_.pause();  // a trace of a large run takes a while
  for (const Race& race : recorder_.races()) log::error("race: {}", race.text);
  const std::vector<LaneReport> lanes = lane_times(recorder_, 2);
  for (const LaneReport& lane : lanes) {
    log::info("lane {:<15} busy {:.3f} s, exposed {:.3f} s a step", lane.lane, lane.busy_s,
              lane.exposed_s);
  }
  const Recorder::WorkTime updates = update_time(recorder_, 2);
  log::info("updates {}", to_string(updates));
  const Prediction predicted = predict(session_.setup(), session_.rated_device());
  if (predicted.unknown.empty()) log::info("{}", predicted.to_string());
  if (session_.setup().saves) log::info("{}", session_.predict_save().to_string());
  report_finished();  // their lines stand before what the trace says of them
  if (report_) report_->trace(step, recorder_, lanes, updates);
  recorder_.clear();
  reference_s_ = steady_seconds();
}

void Trainer::report_finished() {
  // Taken first, so that the steps that have counted are among those that have finished.
  const std::vector<Fp8StepCounts> counted = session_.take_fp8_counts();
  for (const FinishedStep& finished : session_.take_finished()) {
    first_step_.reset();
    const double step_s = finished.finished_s - std::max(reference_s_, last_finished_s_);
    longest_step_s_ = std::max(longest_step_s_, step_s);
    last_finished_s_ = finished.finished_s;
    note_bad(finished.outcome);
    if (report_) report_->step(finished, step_s);
  }
  for (const Fp8StepCounts& step : counted) {
    if (report_) report_->fp8(step);
  }
}

/// Throws Interrupted on every rank if any of them was told to end. All ranks call it.
void Trainer::end_if_asked() {
  std::array<int, 1> own{bad_ ? kBadStep : signals_.received()};
  const double needed_s = 2 * longest_step_s_ + (saves_ ? saves_->needed_s() : 0);
  if (own[0] == 0 && time_limit_.is_over(needed_s)) own[0] = kTimeOver;
  const std::vector<std::byte> bytes =
      ranks_.all_gather_host(std::as_bytes(std::span(own)), Channel::kSubmit);
  std::vector<int> all(static_cast<std::size_t>(ranks_.size()));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  const int signal = *std::ranges::max_element(all);
  if (signal == kBadStep) {
    synchronize();  // after it every rank knows the step
    require_good_steps();
  }
  if (signal != 0) throw Interrupted(signal);
}

/// Remembers the first bad step, if the run goes back from such.
void Trainer::note_bad(const StepOutcome& outcome) {
  if (bad_ || outcome.bad.empty() || config_.on_bad_step() != OnBadStep::kRollback) return;
  bad_ = BadStep{.step = outcome.step,
                 .what = outcome.bad,
                 .samples = session_.samples_after(outcome.step + 1)};
}

/// Throws BadStep if the run goes back from a step that has finished. All ranks call it with the
/// same steps finished.
void Trainer::require_good_steps() const {
  if (!bad_) return;
  rollbacks_.require_possible(*bad_);
  throw BadStep(*bad_);
}

/// Notes that somebody asks for a checkpoint.
void Trainer::take_save_request() {
  if (signals_.take_save_request() || save_file_is_there()) saves_->ask();
}

/// Returns whether somebody has put the file into the run folder that asks for a checkpoint, and
/// takes it away.
bool Trainer::save_file_is_there() const {
  std::error_code ignored;
  return folder_ != nullptr && std::filesystem::remove(folder_->save_request(), ignored);
}

/// Reports saves that have ended.
void Trainer::report_saves() {
  for (const SaveReport& report : saves_->take_reports()) {
    if (report_) report_->save(report, saves_->steps_waited());
  }
}

/// Waits for what is being saved, and saves the last state if that is to be. Returns whether this
/// run's folder has the last state.
bool Trainer::save_at_end() {
  if (!saves_->any()) return false;
  log::live("");  // the line of a step that nothing follows
  saves_->tell(validations_);
  const WorkMeter meter(saves_->work());
  const auto meanwhile = [this] { say_signal_waits(); };
  saves_->wait(meanwhile);
  report_saves();
  take_save_request();
  saves_->save_last(done_, session_.samples_after(done_), meanwhile);
  report_saves();
  return saves_->saved() == done_;
}

/// Says once that a signal which has come since the last step does not end the save.
void Trainer::say_signal_waits() {
  const int signal = signals_.received();
  if (signal == 0 || std::exchange(signal_told_, true)) return;
  log::info("{}: the run ends when the checkpoint is saved, or at once when the signal comes again",
            signal_name(signal));
}

}  // namespace strata
