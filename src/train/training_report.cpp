// Writes what a run reports: lines of progress, metrics and samples. training_report.h is the
// contract.

#include "train/training_report.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iterator>
#include <span>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/process.h"
#include "strata/base/sample_prompt.h"
#include "strata/base/text.h"
#include "strata/train/agenda.h"
#include "strata/train/fresh_start.h"

namespace strata {

namespace {

std::int64_t metric_of(std::size_t bytes) { return static_cast<std::int64_t>(bytes); }

/// Returns whether there are metrics of before that belong to the run.
bool goes_on(const CheckpointPlace& place) { return place.resume || !place.skipped.empty(); }

/// Returns what becomes of the metrics of before, once they have made way for those of a run that
/// begins anew.
LineFile::OldLines old_metrics(const RunFolder& folder, const CheckpointPlace& place) {
  if (goes_on(place)) return LineFile::OldLines::kKeep;
  set_aside_lines(folder);
  return LineFile::OldLines::kRemove;
}

/// Returns whether tokens may have no loss: those of a padded, packed or masked row, or without
/// loss bit.
bool has_other_tokens(const Session& session) {
  const auto& sources = session.training_set().sources;
  return session.config().data.document_mask ||
         std::ranges::any_of(sources, [](const auto& source) { return source->has_loss(); });
}

ProgressGoal goal_of(const Session& session, const CheckpointPlace& place, bool has_mfu) {
  const RunConfig& config = session.config();
  return {.steps = config.run.steps,
          .tokens_per_step = session.global_tokens_per_step(),
          .tokens_before = place.trained_samples() * config.data.sequence_length,
          .validations = session.has_validation() ? validations_of(config.run) : 0,
          .has_mfu = has_mfu,
          .has_targets = !config.train.objective && has_other_tokens(session),
          .has_pairs = config.train.objective.has_value(),
          .has_masks = config.data.document_mask};
}

/// Adds what packing made of the training set, if it is packed.
void add_packing(const TrainingSet& set, std::vector<Metric>& metrics) {
  if (set.packing.empty()) return;
  MetricGroup padding;
  std::int64_t overlong = 0;
  std::int64_t dropped = 0;
  for (std::size_t i = 0; i < set.packing.size(); ++i) {
    padding.emplace_back(set.sources[i]->name(), set.packing[i].padding_share());
    overlong += set.packing[i].overlong;
    dropped += set.packing[i].dropped_tokens;
  }
  metrics.push_back({"padding_share", padding});
  metrics.push_back({"overlong_documents", overlong});
  metrics.push_back({"dropped_tokens", dropped});
}

}  // namespace

TrainingReport::TrainingReport(Session& session, const RunFolder& folder,
                               const CheckpointPlace& place, int ranks)
    : session_(session),
      config_(session.config()),
      folder_(folder),
      place_(place),
      ranks_(ranks),
      flops_per_token_(flops_per_token(session.setup().spec, config_.data.sequence_length)),
      peak_(device_peak(session)),
      progress_(goal_of(session, place, peak_.tflops > 0)),
      metrics_(folder.metrics(), old_metrics(folder, place)),
      begun_s_(steady_seconds()) {
  if (config_.run.sample_every > 0) {
    samples_.emplace(folder.samples(),
                     goes_on(place) ? LineFile::OldLines::kKeep : LineFile::OldLines::kRemove);
  }
  begin();
  if (config_.run.tensorboard) begin_events();
}

/// Begins an event file. They are a second copy of the metrics, for which no run ends.
void TrainingReport::begin_events() {
  try {
    events_.emplace(folder_.path(),
                    goes_on(place_) ? std::optional(place_.first_step()) : std::nullopt);
  } catch (const IoError& error) {
    log::warn("run.tensorboard: {}; the run goes on without an event file", error.what());
  }
}

void TrainingReport::begin() {
  const DeviceInfo info = session_.device().info();
  Metric peak{"peak_tflops", {}};
  if (peak_.tflops > 0) peak.value = peak_.tflops;
  std::vector<Metric> metrics{
      {"parameters", config_.model.llama.parameter_count()},
      {"backend", info.backend},
      {"device", info.name},
      {"ranks", std::int64_t{ranks_}},
      {"tokens_per_step", session_.global_tokens_per_step()},
      {"flops_per_token", flops_per_token_},
      peak,
      {"recompute_flops_per_token", session_.setup().recompute_flops_per_token()},
      {"activations_kept", session_.setup().kept_text()},
      {"device_planned_bytes", static_cast<std::int64_t>(session_.setup().device_bytes())},
      {"host_planned_bytes", static_cast<std::int64_t>(session_.setup().host_bytes())}};
  add_packing(session_.training_set(), metrics);
  if (!goes_on(place_)) return metrics_.start(metrics);
  metrics.push_back({"step", place_.first_step()});
  if (place_.resume) metrics.push_back({"checkpoint", place_.resume->folder.string()});
  metrics_.resume(metrics);
}

StepMetrics TrainingReport::metrics_of(const FinishedStep& finished, double step_s) const {
  StepMetrics m;
  m.step = finished.outcome.step + 1;
  m.loss = finished.outcome.loss;
  m.grad_norm = finished.outcome.grad_norm;
  m.lr = finished.outcome.lr;
  m.tokens = session_.global_tokens_per_step();
  m.step_s = step_s;
  m.mfu = model_flops_utilisation(flops_per_token_, m.tokens_per_s(), peak_.tflops, ranks_);
  if (config_.train.objective) {
    m.reward_margin = finished.outcome.chosen_reward - finished.outcome.rejected_reward;
    m.preferred = finished.outcome.preferred;
  } else {
    m.targets = finished.valid_tokens;
  }
  if (!config_.data.document_mask) return m;
  m.attended_mfu = model_flops_utilisation(
      flops_per_token(session_.setup().spec, config_.data.sequence_length, finished.attended),
      m.tokens_per_s(), peak_.tflops, ranks_);
  return m;
}

/// Returns what a step says of its targets, or of its pairs of answers.
std::vector<Metric> TrainingReport::counted(const FinishedStep& finished,
                                            const StepMetrics& m) const {
  if (!config_.train.objective) {
    return {{"valid_tokens", finished.valid_tokens}, {"targets_per_s", m.targets_per_s()}};
  }
  return {{"pairs", finished.valid_tokens},
          {"chosen_reward", finished.outcome.chosen_reward},
          {"rejected_reward", finished.outcome.rejected_reward},
          {"reward_margin", m.reward_margin},
          {"preferred", m.preferred}};
}

std::vector<Metric> TrainingReport::extras_of(const FinishedStep& finished) const {
  std::vector<Metric> extras{{"applied", finished.outcome.applied},
                             {"host_busy_s", finished.host_busy_s},
                             {"weights_in_bytes", metric_of(finished.link.weights_in)},
                             {"activations_in_bytes", metric_of(finished.link.activations_in)},
                             {"out_bytes", metric_of(finished.link.out)},
                             {"state_bytes", metric_of(finished.link.state)}};
  if (!config_.data.synthetic) {
    extras.push_back({"data_epochs", session_.epochs_after(finished.outcome.step + 1)});
  }
  if (config_.optimizer.timing == UpdateTiming::kSpeculative) {
    extras.push_back({"missed", finished.outcome.missed});
  }
  return extras;
}

void TrainingReport::step(const FinishedStep& finished, double step_s) {
  const StepMetrics m = metrics_of(finished, step_s);
  std::vector<Metric> extras = extras_of(finished);
  std::ranges::copy(counted(finished, m), std::back_inserter(extras));
  if (config_.data.document_mask) {
    extras.push_back({"attended", finished.attended});
    extras.push_back({"mfu_attended", {}});
    if (m.attended_mfu) extras.back().value = *m.attended_mfu;
  }
  missed_ += finished.outcome.missed ? 1 : 0;
  const std::string warning = peak_warning(m.mfu, peak_);
  if (!warning.empty()) {
    extras.push_back({"mfu_warning", warning});
    if (!std::exchange(peak_warned_, true)) log::warn("step {}: {}", m.step, warning);
  }
  metrics_.step(m, extras);
  if (events_) events_->step(m);
  if (m.step == 1) log::debug("{}", to_string(session_.startup()));
  progress_.add(m);
  show_progress(m.step);
}

/// Shows a line after every run.log_every steps, the first and the last one, and the other steps
/// on a terminal while they are the newest.
void TrainingReport::show_progress(std::int64_t done) {
  constexpr int kLinesPerHeader = 25;
  const std::string line = progress_.line(std::time(nullptr));
  const bool lasting = done == 1 || done == config_.run.steps || done % config_.run.log_every == 0;
  log::live(lasting ? "" : line);
  if (!lasting) return;
  if (lines_++ % kLinesPerHeader == 0) log::info("{}", progress_.header());
  log::info("{}", line);
  progress_.begin_line();
}

void TrainingReport::fp8(const Fp8StepCounts& counted) {
  metrics_.fp8(counted);
  const std::string warning = fp8_watch_.look(counted);
  if (!warning.empty()) log::warn("{}", warning);
}

void TrainingReport::validation(std::int64_t done, double loss, double seconds) {
  validation_loss_ = loss;
  progress_.add_validation(seconds);
  metrics_.eval(done, loss);
  if (events_) events_->eval(done, loss);
  log::info("step {}/{} validation loss {:.4f} ({:.1f} s)", done, config_.run.steps, loss, seconds);
}

void TrainingReport::samples(std::int64_t done, const std::vector<RunSample>& samples) {
  for (const RunSample& sample : samples) {
    samples_->write(json_line(done, sample));
    const std::string before = is_conversation(sample.prompt) ? std::string() : sample.prompt;
    log::info("step {}/{} sample: {}", done, config_.run.steps,
              shortened(printable_name(before + sample.text)));
  }
}

void TrainingReport::save(const SaveReport& report, std::int64_t steps_waited) {
  const std::string_view what = report.weights_alone ? "weights" : "checkpoint";
  const bool saved = report.failure.empty();
  if (saved) {
    log::info("{} of step {} saved in {:.1f} s: {}", what, report.step, report.seconds,
              report.folder.string());
  } else {
    log::error("{} of step {}: not saved: {}; training goes on", what, report.step, report.failure);
  }
  if (!report.warning.empty()) log::warn("{}", report.warning);
  Metric why{"failure", {}};
  if (!saved) why.value = report.failure;
  metrics_.checkpoint(std::vector<Metric>{{"step", report.step},
                                          {"weights_alone", report.weights_alone},
                                          {"saved", saved},
                                          {"seconds", report.seconds},
                                          {"bytes", static_cast<std::int64_t>(report.bytes)},
                                          {"steps_waited", steps_waited},
                                          why});
}

void TrainingReport::trace(std::int64_t step, const Recorder& recorder,
                           const std::vector<LaneReport>& lanes,
                           const Recorder::WorkTime& updates) {
  const std::string file = folder_.trace().string();
  try {
    recorder.write_chrome_trace(file);
    log::info("trace of steps {} and {} in {}", step + 1, step + 2, file);
  } catch (const Error& error) {
    log::warn("{}; the run goes on without it", error.what());
  }
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
  metrics_.trace(metrics);
}

void TrainingReport::rollback(const BadStep& bad) {
  metrics_.rollback(
      std::vector<Metric>{{"step", bad.step + 1}, {"what", bad.what}, {"samples", bad.samples}});
}

void TrainingReport::error() { metrics_.end(end_metrics("error")); }

void TrainingReport::end(const Ending& ending, const MemoryReport& memory) {
  std::vector<Metric> metrics = end_metrics(ending.reason);
  metrics.push_back({"device_measured_bytes", metric_of(memory.device_measured)});
  metrics.push_back({"host_peak_bytes", metric_of(memory.host_peak)});
  if (config_.optimizer.timing == UpdateTiming::kSpeculative) {
    log::info("speculation: {} of {} steps missed", missed_, progress_.steps_done());
    metrics.push_back({"missed_steps", missed_});
  }
  for (const auto& [key, seconds] : parts_of(session_.startup())) {
    metrics.push_back({key, seconds});
  }
  metrics_.end(metrics);
  log::info("{}", result(ending));
}

/// Returns what the last line of the metrics says, whatever the reason.
std::vector<Metric> TrainingReport::end_metrics(std::string reason) const {
  return {{"reason", std::move(reason)}, {"steps", progress_.steps_done()}};
}

/// Returns the last line of a run: what came out, and where it is.
std::string TrainingReport::result(const Ending& ending) const {
  const double seconds = steady_seconds() - begun_s_;
  const auto tokens = static_cast<double>(progress_.tokens_seen());
  std::string text =
      fmt::format("{}: {} of {} steps, {} tokens in {} ({} tokens/s)", ending.text,
                  format_count(progress_.steps_done()), format_count(config_.run.steps),
                  format_count(progress_.tokens_seen()), format_duration(seconds),
                  format_count(std::llround(tokens / std::max(seconds, 1e-9))));
  if (const auto loss = progress_.recent_loss()) text += fmt::format(", loss {:.4f}", *loss);
  if (validation_loss_) text += fmt::format(", validation loss {:.4f}", *validation_loss_);
  if (const std::int64_t lost = metrics_.lost_lines(); lost > 0) {
    text += fmt::format(", {} lines of metrics lost", format_count(lost));
  }
  return text + "; run folder " + config_.run.output;
}

}  // namespace strata
