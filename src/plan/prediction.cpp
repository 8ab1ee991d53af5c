// A prediction submits four steps to the dry backend, which records them, and runs the records on a
// timeline. The step amid many is read off the last two, so that the start from an idle machine
// does not count.

#include "strata/plan/prediction.h"

#include <algorithm>
#include <span>

#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/device/timeline.h"
#include "strata/ops/backend.h"
#include "strata/plan/assembly.h"
#include "strata/plan/rates.h"
#include "strata/plan/utilisation.h"

namespace strata {

namespace {

/// The first two start from an idle machine, and the buffers of batches alternate from step to
/// step: of the last two the mean is taken.
constexpr int kSteps = 4;

/// Recorded steps and when they run.
class DryRun {
 public:
  DryRun(const Setup& setup, const Rates& rates, int steps = kSteps)
      : ends_(record_steps(setup, steps, recorder_)), timeline_(recorder_.records(), rates) {}

  /// Returns when a step's work on the compute lane ends.
  [[nodiscard]] double computed_s(int step) const {
    return timeline_.run(last_compute(step)).end_s;
  }
  /// Returns the seconds of a step amid many.
  [[nodiscard]] double step_s() const {
    return (computed_s(kSteps - 1) - computed_s(kSteps - 3)) / 2;
  }
  [[nodiscard]] double end_s() const { return timeline_.end_s(); }

  [[nodiscard]] Timeline::CriticalPath critical_path(int first, int last) const {
    return timeline_.critical_path(last_compute(last), computed_s(first - 1));
  }

  /// Makes the trace of steps [first, last], as it would have been recorded, without addresses.
  void trace(Recorder& trace, int first, int last) const {
    trace_records(trace, begin_of(first), begin_of(last + 1));
  }
  /// Makes the trace of all steps, and of what was left of their updates.
  void trace(Recorder& trace) const { trace_records(trace, 0, recorder_.records().size()); }

 private:
  void trace_records(Recorder& trace, std::size_t begin, std::size_t end) const {
    trace.start();
    for (std::size_t i = begin; i < end; ++i) {
      const TraceRecord& record = recorder_.records()[i];
      const Submission& what = record.what;
      Cost cost = what.cost;
      cost.bytes = moved_bytes(what);
      trace.submitted(
          {.lane = record.lane,
           .ticket = record.ticket,
           .what = {.name = what.name, .kind = what.kind, .tag = what.tag, .cost = cost},
           .waits = record.waits,
           .joined = record.joined,
           .by_submitter = record.by_submitter});
      const PredictedRun& run = timeline_.run(i);
      if (!record.by_submitter) {
        trace.ran(record.lane, record.ticket, run.begin_s * 1e6, run.end_s * 1e6);
      }
    }
  }

  [[nodiscard]] std::size_t begin_of(int step) const {
    return step == 0 ? 0 : ends_.at(static_cast<std::size_t>(step - 1));
  }

  [[nodiscard]] std::size_t last_compute(int step) const {
    std::size_t i = begin_of(step + 1);
    const auto computes = [&](const TraceRecord& record) {
      return !record.by_submitter && record.lane == Lane::kCompute;
    };
    while (!computes(recorder_.records()[--i])) {
    }
    return i;
  }

  Recorder recorder_;
  std::vector<std::size_t> ends_;
  Timeline timeline_;
};

/// Returns the lanes of a step amid many: what two more steps add to a trace that begins a step
/// earlier, the gap between two steps included.
std::vector<LaneReport> steady_lanes(const DryRun& run) {
  Recorder one, three;
  run.trace(one, kSteps - 3, kSteps - 3);
  run.trace(three, kSteps - 3, kSteps - 1);
  std::vector<LaneReport> lanes = lane_times(three, 1);
  const std::vector<LaneReport> before = lane_times(one, 1);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    lanes[i].busy_s = (lanes[i].busy_s - before[i].busy_s) / 2;
    lanes[i].exposed_s = (lanes[i].exposed_s - before[i].exposed_s) / 2;
  }
  return lanes;
}

std::vector<Prediction::Part> critical_parts(const DryRun& run) {
  const Timeline::CriticalPath path = run.critical_path(kSteps - 2, kSteps - 1);
  double all_s = path.submit_s;
  for (const double lane_s : path.lanes_s) all_s += lane_s;
  std::vector<Prediction::Part> parts{{"submission", path.submit_s / all_s}};
  for (int i = 0; i < kLaneCount; ++i) {
    parts.push_back({std::string(name_of(static_cast<Lane>(i))),
                     path.lanes_s[static_cast<std::size_t>(i)] / all_s});
  }
  std::ranges::stable_sort(parts, std::ranges::greater{}, &Prediction::Part::share);
  return parts;
}

/// Returns why a step cannot be predicted, or nothing if it can.
std::string why_unknown(const Setup& setup, std::string_view device, const KnownRates& known) {
  if (setup.state.ranks > 1) return "nobody has measured collectives of several ranks";
  if (setup.batch.mask == DocumentMask::kOn)
    return "with data.document_mask work depends on the data";
  if (setup.sizes.compute != DType::kBF16) return "rates are those of bf16";
  const HardwareSection& hardware = setup.hardware;
  const bool attention_given =
      hardware.attention_forward_tflops && hardware.attention_backward_tflops;
  if (setup.attention != AttentionKernels::kAuto && !attention_given) {
    return "rates are those of kernels.attention auto; set hardware.attention_forward_tflops and "
           "attention_backward_tflops";
  }
  if (known.missing.empty()) return {};
  const char* why = device.empty()
                        ? "no GPU is named, and this machine has none; name one with --gpu, or set "
                        : "nobody has measured this device; set ";
  return why + known.missing;
}

}  // namespace

std::vector<std::size_t> record_steps(const Setup& setup, int steps, Recorder& recorder) {
  const Backend backend = make_backend(BackendKind::kDry, {.device = {.trace = &recorder}});
  const std::unique_ptr<Ranks> ranks = make_dry_ranks(setup.state.rank, setup.state.ranks);
  const std::unique_ptr<Collectives> collectives = make_collectives(*ranks, *backend.device);
  Assembly assembly(setup, {backend, *ranks, *collectives},
                    [](const StepOutcome&, std::int64_t) {});
  const std::int64_t tokens = setup.batch.batch.pass_tokens();
  constexpr double kAnyRate = 1;  // nothing is computed
  std::vector<std::size_t> ends;
  recorder.start();
  for (int step = 0; step < steps; ++step) {
    assembly.submit(step, kAnyRate, [&](int, const PassBuffers&) { return tokens; });
    ends.push_back(recorder.records().size());
  }
  assembly.optimizer().submit_updates({.phase = "update"});
  recorder.stop();
  return ends;
}

Prediction predict(const Setup& setup, std::string_view device) {
  const KnownRates known = known_rates(device, setup.hardware);
  Prediction p;
  p.unknown = why_unknown(setup, device, known);
  if (!p.unknown.empty()) return p;
  p.rates = known.source;
  const DryRun run(setup, known.rates);
  p.step_s = run.step_s();
  p.once_s = run.end_s() - kSteps * p.step_s;
  const std::int64_t tokens =
      setup.batch.batch.pass_tokens() * setup.choices.passes * setup.state.ranks;
  p.tokens_per_s = static_cast<double>(tokens) / p.step_s;
  const DevicePeak peak = device_peak(setup.hardware, setup.budget.peak_tflops);
  p.mfu = model_flops_utilisation(flops_per_token(setup.model, setup.batch.batch.tokens),
                                  p.tokens_per_s, peak.tflops, setup.state.ranks);
  p.warning = peak_warning(p.mfu, peak);
  p.lanes = steady_lanes(run);
  p.critical = critical_parts(run);
  return p;
}

PredictedTrace predict_trace(const Setup& setup, std::string_view device) {
  constexpr int kTraced = 2;
  const KnownRates known = known_rates(device, setup.hardware);
  if (!why_unknown(setup, device, known).empty()) return {};
  Recorder traced;
  DryRun(setup, known.rates, kTraced).trace(traced);
  return {lane_times(traced, kTraced), work_times(traced, kTraced)};
}

std::optional<double> predict_step_s(const Setup& setup, std::string_view device) {
  const KnownRates known = known_rates(device, setup.hardware);
  if (!why_unknown(setup, device, known).empty()) return std::nullopt;
  return DryRun(setup, known.rates).step_s();
}

std::string Prediction::to_string() const {
  if (!unknown.empty()) return "predicted step: unknown: " + unknown + "\n";
  std::string text = fmt::format("predicted for {}\npredicted step: {:.3f} s, {} tokens/s", rates,
                                 step_s, format_count(static_cast<std::int64_t>(tokens_per_s)));
  if (mfu) text += fmt::format(", MFU {:.1f} %", 100 * *mfu);
  text += fmt::format("; the first and the last of a run take {:.3f} s more\n  bound by", once_s);
  constexpr double kWorthALine = 0.005;
  for (const Part& part : critical) {
    if (part.share >= kWorthALine) {
      text += fmt::format(" {} {:.0f} %,", part.name, 100 * part.share);
    }
  }
  text.back() = '\n';
  for (const LaneReport& lane : lanes) {
    if (lane.busy_s == 0) continue;
    text += fmt::format("  lane {:<15} busy {:.3f} s, exposed {:.3f} s\n", lane.lane, lane.busy_s,
                        lane.exposed_s);
  }
  return warning.empty() ? text : text + warning + "\n";
}

}  // namespace strata
