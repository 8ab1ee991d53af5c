// A prediction submits four steps to the dry backend, which puts them on paper, and runs them on a
// timeline. The step amid many is read off the last two, so that the start from an idle machine
// does not count. A step that is too large is predicted by a reduced one.

#include "strata/predict/prediction.h"

#include <algorithm>
#include <array>
#include <utility>

#include "predict/critical_parts.h"
#include "predict/dry_steps.h"
#include "predict/reduced_layout.h"
#include "strata/predict/known_rates.h"
#include "strata/predict/timeline.h"
#include "strata/predict/utilisation.h"

namespace strata {

namespace {

/// The first two start from an idle machine, and the buffers of batches alternate from step to
/// step: of the last two the mean is taken.
constexpr int kPredictedSteps = 4;

/// What is predicted of a step, or of a pass of it.
struct Figures {
  double step_s = 0;
  double once_s = 0;
  std::vector<double> busy_s = std::vector<double>(kLaneCount);
  std::vector<double> exposed_s = std::vector<double>(kLaneCount);
  std::vector<double> critical_s = std::vector<double>(kLaneCount + 1);  ///< submission comes last
  std::size_t records = 0;  ///< that were submitted for it

  /// Adds so many times the figures of a pass.
  void add(double times, const Figures& pass) {
    const auto go_on = [times](double sum, double more) { return sum + times * more; };
    step_s = go_on(step_s, pass.step_s);
    for (auto list : {&Figures::busy_s, &Figures::exposed_s, &Figures::critical_s}) {
      std::ranges::transform(this->*list, pass.*list, (this->*list).begin(), go_on);
    }
  }
};

/// Steps on paper, and when they run.
class DryRun {
 public:
  DryRun(const TrainingLayout& layout, const Rates& rates, const PaperWeights& weights)
      : trace_(rates, weights),
        ends_(submit_steps(
            layout, {.steps = kPredictedSteps}, trace_, [this] { trace_.start(); },
            [this] { return trace_.size(); })),
        timeline_(trace_) {}

  /// Returns the seconds of a step amid many.
  [[nodiscard]] double step_s() const { return span_s(amid_steps()) / 2; }
  /// Returns likewise those of its kernels too.
  [[nodiscard]] StepTimes times() const { return {step_s(), compute_s(amid_steps()) / 2}; }
  /// Returns the same of a pass amid others.
  [[nodiscard]] StepTimes pass_times() const {
    return {span_s(amid_passes()), compute_s(amid_passes())};
  }
  /// Returns everything that is predicted of a step amid many.
  [[nodiscard]] Figures figures() const {
    Figures figures = figures_of(amid_steps(), 0.5);
    figures.once_s = timeline_.end_s() - kPredictedSteps * step_s();
    figures.records = trace_.size();
    return figures;
  }
  /// Returns likewise what is predicted of a pass amid others.
  [[nodiscard]] Figures pass_figures() const { return figures_of(amid_passes(), 1); }

 private:
  /// From the end of one work of the compute lane to the end of another.
  struct Span {
    std::size_t from = 0;
    std::size_t to = 0;
  };
  [[nodiscard]] Span amid_steps() const {
    return {last_compute(begin_of(kPredictedSteps - 2)), last_compute(begin_of(kPredictedSteps))};
  }
  /// The pass before the last of a step.
  [[nodiscard]] Span amid_passes() const {
    const int pass = trace_[last_compute(begin_of(kPredictedSteps))].pass - 1;
    std::size_t to = last_compute(begin_of(kPredictedSteps));
    while (trace_[to].pass != pass) to = last_compute(to);
    std::size_t from = to;
    while (trace_[from].pass == pass) from = last_compute(from);
    return {from, to};
  }
  [[nodiscard]] double span_s(const Span& span) const {
    return timeline_.run(span.to).end_s - timeline_.run(span.from).end_s;
  }

  [[nodiscard]] double compute_s(const Span& span) const {
    double sum = 0;
    for (std::size_t i = span.from + 1; i <= span.to; ++i) {
      if (!computes(trace_[i])) continue;
      const PredictedRun& run = timeline_.run(i);
      sum += run.end_s - run.begin_s;
    }
    return sum;
  }

  /// Returns what happens in a span, times `share`.
  [[nodiscard]] Figures figures_of(const Span& span, double share) const {
    Figures figures{.step_s = share * span_s(span)};
    // What it adds to a trace that begins a step earlier, the gap before it included.
    const LaneTimes with = lanes(span.to + 1);
    const LaneTimes without = lanes(span.from + 1);
    const Timeline::CriticalPath path =
        timeline_.critical_path(span.to, timeline_.run(span.from).end_s);
    for (std::size_t i = 0; i < kLaneCount; ++i) {
      figures.busy_s[i] = share * (with.busy_s[i] - without.busy_s[i]);
      figures.exposed_s[i] = share * (with.exposed_s[i] - without.exposed_s[i]);
      figures.critical_s[i] = share * path.lanes_s[i];
    }
    figures.critical_s[kLaneCount] = share * path.submit_s;
    return figures;
  }

  struct LaneTimes {
    std::array<double, kLaneCount> busy_s{};
    std::array<double, kLaneCount> exposed_s{};
  };

  /// Returns what a trace from the second step up to record `end` shows, as Recorder::exposed_s()
  /// says it.
  [[nodiscard]] LaneTimes lanes(std::size_t end) const {
    LaneTimes times;
    std::array<std::vector<std::size_t>, kLaneCount> on_lane;  // runs in ticket order
    for (std::size_t i = begin_of(1); i < end; ++i) {
      const PaperWork& work = trace_[i];
      if (work.by_submitter) continue;
      const PredictedRun& run = timeline_.run(i);
      const auto lane = static_cast<std::size_t>(work.lane);
      times.busy_s[lane] += run.end_s - run.begin_s;
      if (work.lane == Lane::kCompute && !on_lane[lane].empty()) {
        const double idle_from_s = timeline_.run(on_lane[lane].back()).end_s;
        const double idle_s = run.begin_s - idle_from_s;
        if (idle_s > 0) times.exposed_s[blamed(work, idle_from_s, on_lane)] += idle_s;
      }
      on_lane[lane].push_back(i);
    }
    return times;
  }

  /// Returns the lane that let `work` go last, if that was after `idle_from_s`, else its own.
  [[nodiscard]] std::size_t blamed(
      const PaperWork& work, double idle_from_s,
      const std::array<std::vector<std::size_t>, kLaneCount>& on_lane) const {
    auto lane = static_cast<std::size_t>(work.lane);
    double last_end_s = idle_from_s;
    for (const Event& event : trace_.waits(work)) {
      const auto other = static_cast<std::size_t>(event.lane);
      const std::vector<std::size_t>& runs = on_lane[other];
      if (runs.empty() || event.ticket < trace_[runs.front()].ticket) continue;
      const double end_s = timeline_.run(runs.at(event.ticket - trace_[runs.front()].ticket)).end_s;
      if (end_s <= last_end_s) continue;
      last_end_s = end_s;
      lane = other;
    }
    return lane;
  }

  [[nodiscard]] std::size_t begin_of(int step) const {
    return step == 0 ? 0 : ends_.at(static_cast<std::size_t>(step - 1));
  }

  [[nodiscard]] static bool computes(const PaperWork& work) {
    return !work.by_submitter && work.lane == Lane::kCompute;
  }

  /// Returns the last work of the compute lane before record `end`.
  [[nodiscard]] std::size_t last_compute(std::size_t end) const {
    while (!computes(trace_[--end])) {
    }
    return end;
  }

  PaperTrace trace_;
  std::vector<std::size_t> ends_;
  Timeline timeline_;
};

/// Returns a layout whose documents see each other: what masks leave of its work depends on data.
TrainingLayout unmasked(TrainingLayout layout) {
  layout.batch.mask = DocumentMask::kOff;
  return layout;
}

/// Puts steps of this size on paper, each as long as a whole one but for its passes.
DryRun dry_run(const TrainingLayout& layout, const Rates& rates, const StepSize& size) {
  return {unmasked(reduced_layout(layout, size)), rates, weights_of(layout, size)};
}

/// Returns all figures of a layout.
Figures figures_of(const TrainingLayout& layout, const Rates& rates, double whole_cells) {
  const StepSize size = recorded_size(layout, whole_cells);
  const DryRun run = dry_run(layout, rates, size);
  Figures figures = run.figures();
  const int further = layout.choices.passes - size.passes;
  if (further > 0) figures.add(further, run.pass_figures());
  return figures;
}

/// Has all of a step take longer, in proportion, where a rank would do more of the model's work
/// than `best_tflops`; 0: nothing is known of such a device.
void hold_to(double best_tflops, double flops_a_token, Prediction& p) {
  const double tflops = flops_a_token * p.tokens_per_s / p.ranks * 1e-12;
  if (!(best_tflops > 0) || tflops <= best_tflops) return;
  const double longer = tflops / best_tflops;
  p.held_to_tflops = best_tflops;
  p.step_s *= longer;
  p.tokens_per_s /= longer;
  if (p.mfu) *p.mfu /= longer;
  for (LaneReport& lane : p.lanes) {
    lane.busy_s *= longer;
    lane.exposed_s *= longer;
  }
}

}  // namespace

std::vector<std::size_t> record_steps(const TrainingLayout& layout, int steps, Recorder& recorder) {
  const std::vector<std::size_t> ends = submit_steps(
      layout, {.steps = steps}, recorder, [&] { recorder.start(); },
      [&] { return recorder.records().size(); });
  recorder.stop();
  return ends;
}

Prediction predict(const TrainingLayout& layout, const RatedDevice& device, double whole_cells) {
  const KnownRates known = rates_of(layout, device);
  Prediction p;
  p.unknown = why_unpredictable(layout, device, known);
  if (!p.unknown.empty()) return p;
  p.rates = known.source;
  p.ranks = layout.state.world();
  const Figures figures = figures_of(layout, known.rates, whole_cells);
  p.step_s = figures.step_s;
  p.once_s = figures.once_s;
  p.records = figures.records;
  p.reduced = step_cells(layout, whole_size(layout)) > whole_cells;
  p.tokens_per_s = static_cast<double>(layout.step_tokens()) / p.step_s;
  const DevicePeak peak = device_peak(device.hardware, device.peak_tflops);
  const double flops = flops_per_token(layout.spec, layout.batch.batch.tokens);
  p.mfu = model_flops_utilisation(flops, p.tokens_per_s, peak.tflops, layout.state.world());
  p.warning = peak_warning(p.mfu, peak);
  p.masked = layout.batch.mask == DocumentMask::kOn;
  p.estimated = known.estimated;
  for (std::size_t i = 0; i < kLaneCount; ++i) {
    p.lanes.push_back({.lane = std::string(name_of(static_cast<Lane>(i))),
                       .busy_s = figures.busy_s[i],
                       .exposed_s = figures.exposed_s[i]});
  }
  p.critical = critical_parts(figures.critical_s);
  hold_to(known.best_tflops, flops, p);
  return p;
}

PredictedTrace predict_trace(const TrainingLayout& layout, const RatedDevice& device) {
  constexpr int kTraced = 2;
  const KnownRates known = rates_of(layout, device);
  if (!why_unpredictable(layout, device, known).empty() ||
      step_cells(layout, whole_size(layout)) > kWholeCells)
    return {};
  Recorder recorder;
  record_steps(unmasked(layout), kTraced, recorder);
  PaperTrace paper(known.rates);
  for (const TraceRecord& record : recorder.records()) paper.add(record);
  const Timeline timeline(paper);
  for (std::size_t i = 0; i < timeline.records(); ++i) {
    const TraceRecord& record = recorder.records()[i];
    if (record.by_submitter) continue;
    const PredictedRun& run = timeline.run(i);
    recorder.ran(record.lane, record.ticket, run.begin_s * 1e6, run.end_s * 1e6);
  }
  return {lane_times(recorder, kTraced), work_times(recorder, kTraced)};
}

std::optional<StepTimes> predict_times(const TrainingLayout& layout, const RatedDevice& device,
                                       double whole_cells) {
  const KnownRates known = rates_of(layout, device);
  if (!why_unpredictable(layout, device, known).empty()) return std::nullopt;
  const StepSize size = recorded_size(layout, whole_cells);
  const DryRun run = dry_run(layout, known.rates, size);
  StepTimes times = run.times();
  const int further = layout.choices.passes - size.passes;
  if (further > 0) {
    const StepTimes pass = run.pass_times();
    times.step_s += further * pass.step_s;
    times.compute_s += further * pass.compute_s;
  }
  return times;
}

std::optional<double> predict_step_s(const TrainingLayout& layout, const RatedDevice& device,
                                     double whole_cells) {
  const std::optional<StepTimes> times = predict_times(layout, device, whole_cells);
  return times ? std::optional(times->step_s) : std::nullopt;
}

}  // namespace strata
