// `train` submits the steps of a run with validations and a trace in between, and writes the run
// folder: config, metrics, log and trace. All ranks run it; rank 0 writes.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "commands/run_ranks.h"
#include "strata/base/log.h"
#include "strata/base/process.h"
#include "strata/base/stop_signals.h"
#include "strata/base/text.h"
#include "strata/checkpoint/throttled_files.h"
#include "strata/commands/commands.h"
#include "strata/plan/prediction.h"
#include "strata/plan/utilisation.h"
#include "strata/run/agenda.h"
#include "strata/run/lr_schedule.h"
#include "strata/run/metrics.h"
#include "strata/run/progress.h"
#include "strata/run/report.h"
#include "strata/run/resume.h"
#include "strata/run/rollback.h"
#include "strata/run/run_folder.h"
#include "strata/run/save_agenda.h"
#include "strata/run/session.h"
#include "strata/run/time_limit.h"
#include "strata/run/watchdog.h"

namespace strata {

namespace {

/// EX_TEMPFAIL of sysexits.h: the run can go on.
constexpr int kSavedExitCode = 75;

std::int64_t metric_of(std::size_t bytes) { return static_cast<std::int64_t>(bytes); }

/// Runs the training of one rank. Steps are reported when they have finished, which is after later
/// ones were submitted. Steps are counted from 0 here, and from 1 where a person reads them.
class Trainer {
 public:
  Trainer(const RunConfig& config, Ranks& ranks, StopSignals& signals, Watchdog& watchdog,
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
        config_(session_.setup().config),
        flops_per_token_(
            strata::flops_per_token(config_.model.llama, config_.data.sequence_length)),
        peak_(device_peak(session_)),
        progress_({.steps = config_.run.steps,
                   .tokens_per_step = session_.global_tokens_per_step(),
                   .tokens_before = place.trained_samples() * config.data.sequence_length,
                   .validations = session_.has_validation() ? validations_of(config_.run) : 0,
                   .has_mfu = peak_.tflops > 0}),
        saves_(config.checkpoint, config.run.steps, place.first_step(), steady_seconds()),
        done_(place.first_step()) {
    if (session_.checkpoints() != nullptr) save_s_ = session_.checkpoints()->expected_s();
  }
  ~Trainer() { log::live(""); }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Returns the exit code; it says nothing if the run goes back.
  int run() {
    start();
    begun_s_ = steady_seconds();
    std::optional<Interrupted> interrupted;
    try {
      interrupted = train();
    } catch (const BadStep& bad) {
      report_rollback(bad);
      return 0;
    } catch (...) {
      report_finished();  // the last lines tell why
      if (metrics_) metrics_->end(end_metrics("error"));
      throw;
    }
    const bool saved = save_at_end();
    end(interrupted);
    if (!interrupted) return 0;
    return saved ? kSavedExitCode : interrupted->exit_code();
  }

  /// Returns the step that the run goes back from, if it does, once run() has returned.
  [[nodiscard]] const std::optional<BadStep>& bad_step() const { return bad_; }

 private:
  /// Stands among signals for a bad step, before all of them.
  static constexpr int kBadStep = 1000;

  bool first() const { return ranks_.rank() == 0; }

  /// Throws Interrupted on every rank if any of them was told to end. All ranks call it.
  void end_if_asked() {
    std::array<int, 1> own{bad_ ? kBadStep : signals_.received()};
    if (own[0] == 0 && time_limit_.is_over(2 * longest_step_s_ + 1.5 * save_s_)) own[0] = kTimeOver;
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

  /// Throws BadStep if the run goes back from a step that has finished. All ranks call it with the
  /// same steps finished.
  void require_good_steps() const {
    if (!bad_) return;
    rollbacks_.require_possible(*bad_);
    throw BadStep(*bad_);
  }

  /// Runs all steps and validations, or those until a signal came, which it returns. Then the steps
  /// that were submitted are done.
  std::optional<Interrupted> train() {
    const Watchdog::Scope watched =
        watchdog_.watch(session_.device(), [this] { return session_.collectives_failure(); });
    try {
      steps();
      if (session_.has_validation()) evaluate(config_.run.steps);
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

  void steps() {
    reference_s_ = steady_seconds();
    const std::optional<std::int64_t> traced = first_traced(config_.run);
    while (done_ < config_.run.steps) {
      end_if_asked();
      if (done_ == traced) {
        trace(done_);
      } else {
        submit(done_);
      }
      report_finished();
      if (validation_due(config_.run, done_)) evaluate(done_);
    }
    synchronize();
    require_good_steps();
  }

  void synchronize() {
    session_.synchronize();
    report_finished();
  }

  void submit(std::int64_t step) {
    if (signals_.take_save_request() || save_file_is_there()) saves_.ask();
    const double now_s = steady_seconds();
    SaveKinds due;
    if (session_.checkpoints() != nullptr) due = saves_.due(step + 1, now_s);
    const double lr = lr_at(config_.optimizer, config_.run.steps, step);
    note_saves(session_.submit(step, lr, due), step + 1);
    done_ = step + 1;
    report_saves();
  }

  /// Notes that the state behind `done` steps is being saved.
  void note_saves(const SaveKinds& begun, std::int64_t done) {
    if (begun.whole) saved_before_ = saves_.saved();
    saves_.begun(begun, done, steady_seconds());
  }

  /// Returns whether somebody has put the file into the run folder that asks for a checkpoint, and
  /// takes it away.
  bool save_file_is_there() const {
    std::error_code ignored;
    return folder_ != nullptr && std::filesystem::remove(folder_->save_request(), ignored);
  }

  /// Reports saves that have ended.
  void report_saves() {
    if (session_.checkpoints() == nullptr) return;
    for (const SaveReport& report : session_.checkpoints()->take_reports()) {
      save_s_ = std::max(save_s_, report.seconds);
      if (!report.failure.empty() && !report.weights_alone) saves_.failed(saved_before_);
      if (first()) log_save(report);
    }
  }

  void log_save(const SaveReport& report) {
    const std::string_view what = report.weights_alone ? "weights" : "checkpoint";
    const bool saved = report.failure.empty();
    if (saved) {
      log::info("{} of step {} saved in {:.1f} s: {}", what, report.step, report.seconds,
                report.folder.string());
    } else {
      log::error("{} of step {}: not saved: {}; training goes on", what, report.step,
                 report.failure);
    }
    if (!report.warning.empty()) log::warn("{}", report.warning);
    Metric why{"failure", {}};
    if (!saved) why.value = report.failure;
    metrics_->checkpoint(std::vector<Metric>{{"step", report.step},
                                             {"weights_alone", report.weights_alone},
                                             {"saved", saved},
                                             {"seconds", report.seconds},
                                             {"bytes", static_cast<std::int64_t>(report.bytes)},
                                             {"steps_waited", saves_.steps_waited()},
                                             why});
  }

  /// Waits for what is being saved and saves the last state if it is not. Returns whether it is.
  bool save_at_end() {
    Checkpointer* checkpoints = session_.checkpoints();
    if (checkpoints == nullptr) return false;
    log::live("saving a checkpoint");
    const auto meanwhile = [this] { say_signal_waits(); };
    checkpoints->wait(meanwhile);
    report_saves();
    const SaveKinds left{.whole = config_.checkpoint.at_end && saves_.saved() != done_,
                         .weights = saves_.waiting().weights};
    if (left.any()) {
      note_saves(left, done_);
      checkpoints->save_now(left, done_, session_.samples_after(done_), meanwhile);
      report_saves();
    }
    log::live("");
    return saves_.saved() == done_;
  }

  /// Says once that a signal which has come since the last step does not end the save.
  void say_signal_waits() {
    const int signal = signals_.received();
    if (signal == 0 || std::exchange(signal_told_, true)) return;
    log::info(
        "{}: the run ends when the checkpoint is saved, or at once when the signal comes again",
        signal_name(signal));
  }

  void start() {
    log::debug("memory plan:\n{}", session_.setup().to_string());
    for (const PlacementChoice& choice : session_.choices()) log::debug("{}", choice.to_string());
    if (!first()) return;
    if (session_.checkpoints() != nullptr) set_aside_what_is_left_behind();
    for (const std::string& line : summary(session_, ranks_.size())) log::info("{}", line);
    save_run_config(config_, folder_->config());
    const bool goes_on = place_.resume || !place_.skipped.empty();
    metrics_.emplace(folder_->metrics(),
                     goes_on ? MetricsLog::OldLines::kKeep : MetricsLog::OldLines::kRemove);
    const DeviceInfo info = session_.device().info();
    Metric peak{"peak_tflops", {}};
    if (peak_.tflops > 0) peak.value = peak_.tflops;
    std::vector<Metric> metrics{
        {"parameters", config_.model.llama.parameter_count()},
        {"backend", info.backend},
        {"device", info.name},
        {"ranks", std::int64_t{ranks_.size()}},
        {"tokens_per_step", session_.global_tokens_per_step()},
        {"flops_per_token", flops_per_token_},
        peak,
        {"recompute_flops_per_token", session_.setup().recompute_flops_per_token()},
        {"activations_kept", session_.setup().kept_text()},
        {"device_planned_bytes", static_cast<std::int64_t>(session_.setup().device_bytes())},
        {"host_planned_bytes", static_cast<std::int64_t>(session_.setup().host_bytes())}};
    if (!goes_on) return metrics_->start(metrics);
    metrics.push_back({"step", place_.first_step()});
    if (place_.resume) metrics.push_back({"checkpoint", place_.resume->folder.string()});
    metrics_->resume(metrics);
  }

  /// Makes way for the checkpoints that this run will save where an earlier one got further.
  void set_aside_what_is_left_behind() const {
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

  /// Remembers the first bad step, if the run goes back from such.
  void note_bad(const StepOutcome& outcome) {
    if (bad_ || outcome.bad.empty() || config_.on_bad_step() != OnBadStep::kRollback) return;
    bad_ = BadStep{.step = outcome.step,
                   .what = outcome.bad,
                   .samples = session_.samples_after(outcome.step + 1)};
  }

  void report_rollback(const BadStep& bad) {
    log::live("");
    if (!first()) return;
    metrics_->rollback(
        std::vector<Metric>{{"step", bad.step + 1}, {"what", bad.what}, {"samples", bad.samples}});
  }

  void report_finished() {
    for (const FinishedStep& finished : session_.take_finished()) {
      const double step_s = finished.finished_s - std::max(reference_s_, last_finished_s_);
      longest_step_s_ = std::max(longest_step_s_, step_s);
      last_finished_s_ = finished.finished_s;
      note_bad(finished.outcome);
      if (!first()) continue;
      StepMetrics m;
      m.step = finished.outcome.step + 1;
      m.loss = finished.outcome.loss;
      m.grad_norm = finished.outcome.grad_norm;
      m.lr = finished.outcome.lr;
      m.tokens = session_.global_tokens_per_step();
      m.step_s = step_s;
      m.mfu =
          model_flops_utilisation(flops_per_token_, m.tokens_per_s(), peak_.tflops, ranks_.size());
      std::vector<Metric> extras{{"valid_tokens", finished.valid_tokens},
                                 {"applied", finished.outcome.applied},
                                 {"host_busy_s", finished.host_busy_s},
                                 {"weights_in_bytes", metric_of(finished.link.weights_in)},
                                 {"activations_in_bytes", metric_of(finished.link.activations_in)},
                                 {"out_bytes", metric_of(finished.link.out)},
                                 {"state_bytes", metric_of(finished.link.state)}};
      if (config_.optimizer.timing == UpdateTiming::kSpeculative) {
        extras.push_back({"missed", finished.outcome.missed});
        missed_ += finished.outcome.missed ? 1 : 0;
      }
      const std::string warning = peak_warning(m.mfu, peak_);
      if (!warning.empty()) {
        extras.push_back({"mfu_warning", warning});
        if (!std::exchange(peak_warned_, true)) log::warn("step {}: {}", m.step, warning);
      }
      metrics_->step(m, extras);
      if (m.step == 1) log::debug("{}", to_string(session_.startup()));
      progress_.add(m);
      show_progress(m.step);
    }
  }

  /// Shows a line after every run.log_every steps, the first and the last one, and the other steps
  /// on a terminal while they are the newest.
  void show_progress(std::int64_t done) {
    constexpr int kLinesPerHeader = 25;
    const std::string line = progress_.line(std::time(nullptr));
    const bool lasting =
        done == 1 || done == config_.run.steps || done % config_.run.log_every == 0;
    log::live(lasting ? "" : line);
    if (!lasting) return;
    if (lines_++ % kLinesPerHeader == 0) log::info("{}", progress_.header());
    log::info("{}", line);
    progress_.begin_line();
  }

  void evaluate(std::int64_t done) {
    synchronize();  // a validation may take long
    require_good_steps();
    log::live(fmt::format("validation after step {}", done));
    const double begin_s = steady_seconds();
    validation_loss_ = session_.evaluate();
    reference_s_ = steady_seconds();
    progress_.add_validation(reference_s_ - begin_s);
    log::live("");
    if (!first()) return;
    metrics_->eval(done, *validation_loss_);
    log::info("step {}/{} validation loss {:.4f} ({:.1f} s)", done, config_.run.steps,
              *validation_loss_, reference_s_ - begin_s);
  }

  void trace(std::int64_t step) {
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
    const Prediction predicted = predict(session_.setup(), session_.device().info().name);
    if (predicted.unknown.empty()) log::info("{}", predicted.to_string());
    if (session_.setup().snapshots) log::info("{}", session_.predict_save().to_string());
    if (first()) write_trace(step);
    recorder_.clear();
    report_finished();
    if (first()) log_trace(step, lanes, updates);
    reference_s_ = steady_seconds();
  }

  /// Writes the trace file; a disk that is full costs the trace and not the run.
  void write_trace(std::int64_t step) {
    const std::string file = folder_->trace().string();
    try {
      recorder_.write_chrome_trace(file);
      log::info("trace of steps {} and {} in {}", step + 1, step + 2, file);
    } catch (const IoError& error) {
      log::warn("{}; the run goes on without it", error.what());
    }
  }

  /// Writes where the time of the two traced steps went, as seconds of one step.
  void log_trace(std::int64_t step, const std::vector<LaneReport>& lanes,
                 const Recorder::WorkTime& updates) {
    std::vector<std::string> keys;
    for (const LaneReport& lane : lanes) {
      keys.push_back(lane.lane + "_busy_s");
      keys.push_back(lane.lane + "_exposed_s");
    }
    std::vector<Metric> metrics{{"step", step + 1}};
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      metrics.push_back({keys[2 * i], lanes[i].busy_s});
      metrics.push_back({keys[2 * i + 1], lanes[i].exposed_s});
    }
    metrics.push_back({"updates_busy_s", updates.busy_s});
    metrics.push_back({"updates_exposed_s", updates.exposed_s});
    metrics.push_back({"updates_hidden", updates.hidden()});
    metrics_->trace(metrics);
  }

  /// Returns what the last line of the metrics says, whatever the reason.
  std::vector<Metric> end_metrics(std::string reason) {
    return {{"reason", std::move(reason)}, {"steps", progress_.steps_done()}};
  }

  void end(const std::optional<Interrupted>& interrupted) {
    const MemoryReport memory = measure_memory(session_);
    log::debug("{}", to_string(memory));
    if (!first()) return;
    std::vector<Metric> metrics =
        end_metrics(interrupted ? signal_name(interrupted->signal()) : "done");
    metrics.push_back({"device_measured_bytes", metric_of(memory.device_measured)});
    metrics.push_back({"host_peak_bytes", metric_of(memory.host_peak)});
    if (config_.optimizer.timing == UpdateTiming::kSpeculative) {
      log::info("speculation: {} of {} steps missed", missed_, progress_.steps_done());
      metrics.push_back({"missed_steps", missed_});
    }
    for (const auto& [key, seconds] : parts_of(session_.startup())) {
      metrics.push_back({key, seconds});
    }
    metrics_->end(metrics);
    log::info("{}", result(interrupted));
  }

  /// Returns the last line of a run: what came out, and where it is.
  std::string result(const std::optional<Interrupted>& interrupted) const {
    const double seconds = steady_seconds() - begun_s_;
    const auto tokens = static_cast<double>(progress_.tokens_seen());
    std::string text = fmt::format(
        "{}: {} of {} steps, {} tokens in {} ({} tokens/s)",
        interrupted ? interrupted->what() : "done", format_count(progress_.steps_done()),
        format_count(config_.run.steps), format_count(progress_.tokens_seen()),
        format_duration(seconds), format_count(std::llround(tokens / std::max(seconds, 1e-9))));
    if (progress_.steps_done() > 0) text += fmt::format(", loss {:.4f}", progress_.recent_loss());
    if (validation_loss_) text += fmt::format(", validation loss {:.4f}", *validation_loss_);
    if (const std::int64_t lost = metrics_->lost_lines(); lost > 0) {
      text += fmt::format(", {} lines of metrics lost", format_count(lost));
    }
    return text + "; run folder " + config_.run.output;
  }

  Ranks& ranks_;
  StopSignals& signals_;
  Watchdog& watchdog_;
  const RunFolder* folder_;  ///< null but on rank 0
  CheckpointPlace place_;
  const Rollbacks& rollbacks_;
  Recorder recorder_;
  TimeLimit time_limit_;  // the session asks for it while it is made, and so for the next two
  double longest_step_s_ = 0;
  double save_s_ = 0;  ///< of the longest save
  std::optional<BadStep> bad_;
  Session session_;
  RunConfig config_;  ///< resolved
  double flops_per_token_ = 0;
  DevicePeak peak_;
  bool peak_warned_ = false;
  bool signal_told_ = false;  ///< that it came, and what it does
  Progress progress_;
  SaveAgenda saves_;
  std::int64_t done_;              ///< steps that were submitted, of all of the run
  std::int64_t saved_before_ = 0;  ///< SaveAgenda::saved() when the last save began
  int lines_ = 0;                  ///< of progress, that were shown
  std::optional<MetricsLog> metrics_;
  double begun_s_ = 0;      ///< when the first step was
  double reference_s_ = 0;  ///< when stepping last began: at start, after a validation or a trace
  double last_finished_s_ = 0;
  std::optional<double> validation_loss_;  ///< the last one
  std::int64_t missed_ = 0;                ///< steps whose early updates were undone
};

/// Says from where a run goes on, and what is different now. Returns whether anything is left to
/// do: whoever starts a run again until it is done need not look whether it is. Throws ConfigError
/// if too much is different.
bool go_on_from(const FoundCheckpoint& checkpoint, const RunConfig& config,
                const ResumeRequest& request) {
  const std::vector<std::string> differences = compare_with_checkpoint(config, checkpoint, request);
  log::info("resumes  {} (step {})", checkpoint.folder.string(), checkpoint.manifest.step);
  for (const std::string& line : differences) log::info("         {}", line);
  if (checkpoint.manifest.step < config.run.steps) return true;
  const std::string done = checkpoint.folder.string() + " has done " +
                           std::to_string(checkpoint.manifest.step) + " steps, and run.steps is " +
                           std::to_string(config.run.steps) + "; raise it to go on";
  if (request.from != "auto") throw ConfigError("--resume: " + done);
  log::info("done: {}", done);
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
  return on_all_ranks(load, [&](Ranks& ranks, const RunConfig& config) {
    StopSignals signals;
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
    CheckpointPlace place{.files = files, .folder = run_folder / kCheckpointsName, .resume = {}};
    if (folder) {
      for (const std::filesystem::path& saves : save_folders(run_folder)) {
        remove_unfinished(*files, saves);
      }
    }
    ResumeRequest resume = options.resume;
    const auto find = [&] {
      place.resume = find_resume(*files, resume, run_folder, ranks);
      if (!place.resume) return true;
      place.skipped = place.resume->manifest.skipped;
      return go_on_from(*place.resume, config, resume);
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
          continue;
        }
        resume.below = place.resume->manifest.step;
        if (!find()) return 0;
      } catch (const Interrupted& interrupted) {
        log::info("{} before the first step", interrupted.what());
        return place.resume ? kSavedExitCode : interrupted.exit_code();
      }
    }
  });
}

}  // namespace strata
