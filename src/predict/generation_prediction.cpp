// Plays a load of requests and times its sweeps on paper. A load of many requests has many sweeps
// and few kinds of them. Each kind is submitted twice in a row to a dry machine, and its time is
// what lies between the two results: so loads for the next sweep overlap as they do amid many.

#include "strata/predict/generation_prediction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>

#include "predict/critical_parts.h"
#include "predict/dry_steps.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/comm/collectives.h"
#include "strata/comm/ranks.h"
#include "strata/engine/generation_engine.h"
#include "strata/ops/backend.h"
#include "strata/predict/known_rates.h"
#include "strata/predict/timeline.h"
#include "strata/schedule/sweep_batch.h"
#include "strata/schedule/sweep_writer.h"

namespace strata {

namespace {

/// What makes sweeps alike: amounts in steps on a logarithmic scale.
using Kind = std::array<int, 4>;

int step_of(double amount, int steps_per_doubling) {
  return amount <= 0 ? -1 : static_cast<int>(std::lround(steps_per_doubling * std::log2(amount)));
}

Kind kind_of(const std::vector<SweepShare>& shares, int steps) {
  double singles = 0, single_keys = 0, tokens = 0, keys = 0;
  for (const SweepShare& share : shares) {
    const auto count = static_cast<double>(share.count);
    const double seen = static_cast<double>(share.begin) + (count + 1) / 2;
    (share.single ? singles : tokens) += count;
    (share.single ? single_keys : keys) += count * seen;
  }
  return {step_of(singles, steps), step_of(single_keys, steps), step_of(tokens, steps),
          step_of(keys, steps)};
}

/// Sweeps that follow each other and are alike.
struct Stretch {
  Kind kind{};
  std::int64_t sweeps = 1;
  std::int64_t ended = 0;  ///< sequences in all, at its end
  std::vector<SweepShare> shares;

  [[nodiscard]] bool draws_alone() const {
    return std::ranges::all_of(shares, &SweepShare::single);
  }
  [[nodiscard]] bool draws() const { return std::ranges::any_of(shares, &SweepShare::draws); }
};

/// Returns how many sweeps after one in which all sequences had a single token are like it: none of
/// them ends a sequence, and keys become no more than some percent longer.
std::int64_t sweeps_alike(const SweepBatch& batch, const std::vector<SweepShare>& shares,
                          std::int64_t drawn_tokens) {
  constexpr std::int64_t kLonger = 16;  // one part in so many
  std::int64_t alike = std::numeric_limits<std::int64_t>::max();
  for (const SweepShare& share : shares) {
    const BatchedSequence& sequence = batch.at(share.slot);
    alike = std::min({alike, drawn_tokens - sequence.drawn() - 1, sequence.tokens / kLonger});
  }
  return alike;
}

/// Plays a load with lengths alone.
std::vector<Stretch> played(const GenerationLayout& s, const GenerationLoad& load, int steps) {
  SweepBatch batch(s.kv, s.sequences, s.sweep.tokens);
  std::vector<Stretch> all;
  std::int64_t taken = 0, ended = 0;
  while (true) {
    while (taken < load.sequences && batch.admit(load.prompt_tokens, load.drawn_tokens)) ++taken;
    if (batch.empty()) break;
    Stretch stretch{.shares = batch.next_sweep()};
    const std::int64_t ended_before = ended;
    for (const SweepShare& share : stretch.shares) {
      if (!share.draws) continue;
      batch.add_token(share.slot);
      if (batch.at(share.slot).drawn() < load.drawn_tokens) continue;
      batch.release(share.slot);
      ++ended;
    }
    if (ended == ended_before && stretch.draws_alone()) {
      const std::int64_t alike = sweeps_alike(batch, stretch.shares, load.drawn_tokens);
      batch.repeat(alike);
      stretch.sweeps += alike;
      for (SweepShare& share : stretch.shares) share.begin += alike / 2;
    }
    stretch.kind = kind_of(stretch.shares, steps);
    stretch.ended = ended;
    all.push_back(std::move(stretch));
  }
  if (taken < load.sequences) throw std::invalid_argument("a sequence of the load has no room");
  return all;
}

/// What a sweep takes amid others like it.
struct SweepTime {
  double seconds = 0;
  Timeline::CriticalPath path;
  std::size_t records = 0;
};

/// Returns the time of a sweep with these shares. Each has a machine of its own, since the records
/// of all of them together would take hundreds of megabytes.
SweepTime time_sweep(const GenerationLayout& s, const Rates& rates,
                     const std::vector<SweepShare>& shares) {
  PaperTrace trace(rates);
  const Backend backend = make_backend(BackendKind::kDry, {.device = {.trace = &trace}});
  const std::unique_ptr<Ranks> ranks = make_dry_ranks(0, 1);
  const std::unique_ptr<Collectives> collectives = make_collectives(*ranks, *backend.device);
  GenerationEngine engine(s, backend, *collectives);
  const std::vector<std::int32_t> ids(static_cast<std::size_t>(s.sweep.tokens));
  std::array<std::size_t, 2> ends{};  // records of results that were read
  trace.start();
  for (std::size_t& end : ends) {
    SweepWriter writer(engine.tokens().host(), s.sizes.cell_tokens, s.kv);
    for (const SweepShare& share : shares) {
      writer.add_share(share, std::span(ids).first(static_cast<std::size_t>(share.count)));
      if (share.draws) writer.draw({}, {});
    }
    const SweepPlan plan = writer.take();
    engine.sweep().run(plan);
    static_cast<void>(engine.tokens().results(plan.sampled));
    end = trace.size() - 1;
  }
  trace.stop();
  const Timeline timeline(trace);
  const double from_s = timeline.run(ends[0]).end_s;
  return {.seconds = timeline.run(ends[1]).end_s - from_s,
          .path = timeline.critical_path(ends[1], from_s),
          .records = trace.size()};
}

/// Returns what a sweep of each kind takes: of the stretch in the middle of its sweeps.
std::map<Kind, SweepTime> times_of(const GenerationLayout& s, const Rates& rates,
                                   const std::vector<Stretch>& load) {
  std::map<Kind, std::int64_t> counts;
  for (const Stretch& stretch : load) counts[stretch.kind] += stretch.sweeps;
  std::map<Kind, std::int64_t> passed;
  std::map<Kind, SweepTime> times;
  for (const Stretch& stretch : load) {
    std::int64_t& before = passed[stretch.kind];
    const std::int64_t middle = counts[stretch.kind] / 2;
    if (before <= middle && middle < before + stretch.sweeps) {
      times.emplace(stretch.kind, time_sweep(s, rates, stretch.shares));
    }
    before += stretch.sweeps;
  }
  return times;
}

/// Returns the seconds that each further sequence takes amid many: of what was played of so many
/// batches all but the first and the last.
double seconds_each(const std::vector<Stretch>& load, const std::map<Kind, SweepTime>& times,
                    std::int64_t batch, std::int64_t batches) {
  double seconds = 0, counted_s = 0;
  std::int64_t first = 0, last = 0;
  for (const Stretch& stretch : load) {
    if (stretch.ended < batch || stretch.ended > batch * (batches - 1)) continue;
    if (first == 0) {
      first = last = stretch.ended;  // what came up to here is the start
      continue;
    }
    seconds += static_cast<double>(stretch.sweeps) * times.at(stretch.kind).seconds;
    if (stretch.ended == last) continue;
    last = stretch.ended;
    counted_s = seconds;
  }
  return counted_s / static_cast<double>(std::max<std::int64_t>(1, last - first));
}

}  // namespace

GenerationPrediction predict_generation(const GenerationLayout& s, const GenerationLoad& load,
                                        const RatedDevice& device, const PredictionEffort& effort) {
  const KnownRates known = known_rates(device.name, device.hardware, {}, device.stored);
  GenerationPrediction p;
  p.unknown = s.sizes.compute != DType::kBF16 ? "rates are those of bf16"
                                              : why_rates_are_missing(device.name, known);
  if (!p.unknown.empty()) return p;
  p.rates = known.source;
  GenerationLoad some = load;
  some.sequences = std::min(load.sequences, effort.batches * s.sequences);
  const std::vector<Stretch> all = played(s, some, effort.steps_per_doubling);
  const std::map<Kind, SweepTime> times = times_of(s, known.rates, all);
  for (const auto& [kind, time] : times) p.records += time.records;
  std::vector<double> critical_s(kLaneCount + 1);
  double prompts_s = 0, draws_s = 0, sweeps = 0, draws = 0;
  bool drawn = false;
  for (const Stretch& stretch : all) {
    const SweepTime& time = times.at(stretch.kind);
    const auto count = static_cast<double>(stretch.sweeps);
    sweeps += count;
    (stretch.draws_alone() ? draws_s : prompts_s) += count * time.seconds;
    if (stretch.draws_alone()) draws += count;
    if (!drawn) p.first_token_s += time.seconds;
    drawn |= stretch.draws();
    for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
      critical_s[lane] += count * time.path.lanes_s[lane];
    }
    critical_s[kLaneCount] += count * time.path.submit_s;
  }
  const double played_s = prompts_s + draws_s;
  p.seconds = played_s;
  const auto more = static_cast<double>(load.sequences - some.sequences);
  if (more > 0) p.seconds += more * seconds_each(all, times, s.sequences, effort.batches);
  p.sweeps = sweeps * (p.seconds / played_s);
  p.prompt_share = prompts_s / played_s;
  p.draw_s = draws > 0 ? draws_s / draws : 0;
  p.tokens_per_s =
      static_cast<double>(load.sequences) * static_cast<double>(load.drawn_tokens) / p.seconds;
  p.critical = critical_parts(critical_s);
  std::erase_if(p.critical, [](const Prediction::Part& part) { return part.share == 0; });
  return p;
}

std::string GenerationPrediction::to_string() const {
  if (!unknown.empty()) return "no prediction: " + unknown + "\n";
  std::string text = fmt::format(
      "predicted for {}\npredicted: {} tokens/s drawn, {:.2f} s in all, first token after {:.3f} "
      "s\n",
      rates, format_count(std::llround(tokens_per_s)), seconds, first_token_s);
  text += fmt::format("  sweeps {}, with tokens of prompts {:.0f} % of the time",
                      format_count(std::llround(sweeps)), 100 * prompt_share);
  if (draw_s > 0) text += fmt::format(", others {:.2f} ms each", 1000 * draw_s);
  text += "\n  bound by";
  constexpr double kWorthAWord = 0.005;
  for (const Prediction::Part& part : critical) {
    if (part.share >= kWorthAWord) text += fmt::format(" {} {:.0f} %", part.name, 100 * part.share);
  }
  return text + "\n";
}

}  // namespace strata
