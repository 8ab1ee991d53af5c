// A load of many requests has many sweeps and few kinds of them. Each kind is submitted twice in
// a row to one dry machine, and its time is what lies between the two results: so loads for the
// next sweep overlap as they do amid many.

#include "strata/plan/generation_prediction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>

#include "plan/dry_steps.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/comm/collectives.h"
#include "strata/comm/ranks.h"
#include "strata/device/timeline.h"
#include "strata/ops/backend.h"
#include "strata/plan/generation_assembly.h"
#include "strata/plan/rates.h"
#include "strata/schedule/sweep_batch.h"
#include "strata/schedule/sweep_writer.h"

namespace strata {

namespace {

/// More requests than so many times those at once are not played: the rest goes on like the middle.
constexpr std::int64_t kPlayedBatches = 6;

/// What makes sweeps alike: amounts in steps on a logarithmic scale.
using Kind = std::array<int, 4>;

int step_of(double amount, int steps_per_doubling) {
  return amount <= 0 ? -1 : static_cast<int>(std::lround(steps_per_doubling * std::log2(amount)));
}

struct SweepKind {
  std::vector<std::size_t> sweeps;  ///< of the load, in order
  std::vector<SweepShare> shares;   ///< of the one in the middle
};

/// A load that was played.
struct PlayedLoad {
  std::map<Kind, SweepKind> kinds;
  std::vector<std::int64_t> ended;  ///< after each sweep, sequences in all
  std::size_t first_drawing = 0;    ///< the first sweep that draws
};

/// Plays a load: calls `look` with the shares of each sweep, and with how many sequences have ended
/// after it.
template <class Look>
void play(const GenerationSetup& s, const GenerationLoad& load, const Look& look) {
  SweepBatch batch(s.kv, s.sequences, s.sweep.tokens);
  std::int64_t taken = 0, ended = 0;
  while (true) {
    while (taken < load.sequences && batch.admit(load.prompt_tokens, load.drawn_tokens)) ++taken;
    if (batch.empty()) return;
    const std::vector<SweepShare> shares = batch.next_sweep();
    for (const SweepShare& share : shares) {
      if (!share.draws) continue;
      batch.add_token(share.slot);
      if (batch.at(share.slot).drawn() < load.drawn_tokens) continue;
      batch.release(share.slot);
      ++ended;
    }
    look(shares, ended);
  }
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

PlayedLoad played(const GenerationSetup& s, const GenerationLoad& load, int steps) {
  PlayedLoad result;
  std::vector<Kind> of_sweeps;
  play(s, load, [&](const std::vector<SweepShare>& shares, std::int64_t ended) {
    if (result.first_drawing == result.ended.size() &&
        std::ranges::none_of(shares, &SweepShare::draws)) {
      ++result.first_drawing;
    }
    result.kinds[kind_of(shares, steps)].sweeps.push_back(result.ended.size());
    result.ended.push_back(ended);
  });
  // Played again for the shares of one sweep of each kind, so that not all of them are held.
  std::map<std::size_t, SweepKind*> middles;
  for (auto& [kind, same] : result.kinds) middles[same.sweeps[same.sweeps.size() / 2]] = &same;
  std::size_t sweep = 0;
  play(s, load, [&](const std::vector<SweepShare>& shares, std::int64_t) {
    if (const auto at = middles.find(sweep++); at != middles.end()) at->second->shares = shares;
  });
  return result;
}

/// What a sweep takes amid others like it.
struct SweepTime {
  double seconds = 0;
  Timeline::CriticalPath path;
};

/// Returns the times of sweeps with these shares.
std::vector<SweepTime> time_sweeps(const GenerationSetup& s, const Rates& rates,
                                   const std::vector<const std::vector<SweepShare>*>& sweeps) {
  constexpr int kTimes = 2;
  PaperTrace trace(rates);
  const Backend backend = make_backend(BackendKind::kDry, {.device = {.trace = &trace}});
  const std::unique_ptr<Ranks> ranks = make_dry_ranks(0, 1);
  const std::unique_ptr<Collectives> collectives = make_collectives(*ranks, *backend.device);
  GenerationAssembly assembly(s, backend, *collectives);
  const std::vector<std::int32_t> ids(static_cast<std::size_t>(s.sweep.tokens));
  std::vector<std::size_t> ends;  // records of results that were read
  trace.start();
  for (const std::vector<SweepShare>* shares : sweeps) {
    for (int i = 0; i < kTimes; ++i) {
      SweepWriter writer(assembly.tokens().host(), s.sizes.cell_tokens);
      for (const SweepShare& share : *shares) {
        writer.add_share(share, std::span(ids).first(static_cast<std::size_t>(share.count)));
        if (share.draws) writer.draw({}, {});
      }
      const SweepPlan plan = writer.take();
      assembly.sweep().run(plan);
      static_cast<void>(assembly.tokens().results(plan.sampled));
      ends.push_back(trace.size() - 1);
    }
  }
  trace.stop();
  const Timeline timeline(trace);
  std::vector<SweepTime> times;
  for (std::size_t last = kTimes - 1; last < ends.size(); last += kTimes) {
    const double from_s = timeline.run(ends[last - 1]).end_s;
    times.push_back({.seconds = timeline.run(ends[last]).end_s - from_s,
                     .path = timeline.critical_path(ends[last], from_s)});
  }
  return times;
}

/// Adds what sweeps that are alike take to the figures of a load.
void add(GenerationPrediction& p, const SweepKind& kind, const SweepTime& time,
         std::vector<double>& critical_s, std::vector<double>& sweeps_s) {
  const auto count = static_cast<double>(kind.sweeps.size());
  const bool draws_alone = std::ranges::all_of(kind.shares, &SweepShare::single);
  (draws_alone ? p.draw_s : p.prompt_share) += count * time.seconds;
  for (const std::size_t sweep : kind.sweeps) sweeps_s[sweep] = time.seconds;
  for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
    critical_s[lane] += count * time.path.lanes_s[lane];
  }
  critical_s[kLaneCount] += count * time.path.submit_s;
}

std::vector<Prediction::Part> parts_of(const std::vector<double>& critical_s) {
  const double all_s = std::accumulate(critical_s.begin(), critical_s.end(), 0.0);
  std::vector<Prediction::Part> parts;
  for (std::size_t i = 0; i < critical_s.size(); ++i) {
    if (!(critical_s[i] > 0)) continue;
    parts.push_back({i < kLaneCount ? std::string(name_of(static_cast<Lane>(i))) : "submission",
                     critical_s[i] / all_s});
  }
  std::ranges::stable_sort(parts, std::greater<>(), &Prediction::Part::share);
  return parts;
}

/// Returns the seconds that each further sequence takes amid many: of the middle of what was
/// played.
double seconds_each(const PlayedLoad& load, const std::vector<double>& sweeps_s,
                    std::int64_t sequences) {
  double seconds = 0, counted_s = 0;
  std::int64_t first = 0, last = 0;
  for (std::size_t i = 0; i < sweeps_s.size(); ++i) {
    const std::int64_t ended = load.ended[i];
    if (ended < sequences || ended > sequences * (kPlayedBatches - 1)) continue;
    if (first == 0) {
      first = last = ended;  // what came up to here is the start
      continue;
    }
    seconds += sweeps_s[i];
    if (ended == last) continue;
    last = ended;
    counted_s = seconds;
  }
  return counted_s / static_cast<double>(std::max<std::int64_t>(1, last - first));
}

}  // namespace

GenerationPrediction predict_generation(const GenerationSetup& s, const GenerationLoad& load,
                                        const RatedDevice& device, int steps_per_doubling) {
  const KnownRates known = known_rates(device.name, device.hardware, {}, device.stored);
  GenerationPrediction p;
  p.unknown = s.sizes.compute != DType::kBF16 ? "rates are those of bf16"
                                              : why_rates_are_missing(device.name, known);
  if (!p.unknown.empty()) return p;
  p.rates = known.source;
  GenerationLoad some = load;
  some.sequences = std::min(load.sequences, kPlayedBatches * s.sequences);
  const PlayedLoad all = played(s, some, steps_per_doubling);
  std::vector<const std::vector<SweepShare>*> shares;
  for (const auto& [kind, same] : all.kinds) shares.push_back(&same.shares);
  const std::vector<SweepTime> times = time_sweeps(s, known.rates, shares);
  std::vector<double> critical_s(kLaneCount + 1);
  std::vector<double> sweeps_s(all.ended.size());
  std::size_t kinds = 0, drawing = 0;
  for (const auto& [kind, same] : all.kinds) {
    if (std::ranges::all_of(same.shares, &SweepShare::single)) drawing += same.sweeps.size();
    add(p, same, times[kinds++], critical_s, sweeps_s);
  }
  const double played_s = p.draw_s + p.prompt_share;
  p.seconds = played_s;
  p.sweeps = std::ssize(all.ended);
  if (some.sequences < load.sequences) {
    const auto more = static_cast<double>(load.sequences - some.sequences);
    p.seconds += more * seconds_each(all, sweeps_s, s.sequences);
    p.sweeps = std::llround(static_cast<double>(p.sweeps) * p.seconds / played_s);
  }
  p.prompt_share /= played_s;
  p.draw_s = drawing == 0 ? 0 : p.draw_s / static_cast<double>(drawing);
  p.first_token_s = std::accumulate(
      sweeps_s.begin(), sweeps_s.begin() + static_cast<std::ptrdiff_t>(all.first_drawing) + 1, 0.0);
  p.tokens_per_s = static_cast<double>(load.sequences * load.drawn_tokens) / p.seconds;
  p.critical = parts_of(critical_s);
  return p;
}

std::string GenerationPrediction::to_string() const {
  if (!unknown.empty()) return "no prediction: " + unknown + "\n";
  std::string text = fmt::format(
      "predicted for {}\npredicted: {} tokens/s drawn, {:.2f} s in all, first token after {:.3f} "
      "s\n",
      rates, format_count(std::llround(tokens_per_s)), seconds, first_token_s);
  text += fmt::format("  sweeps {}, with tokens of prompts {:.0f} % of the time",
                      format_count(sweeps), 100 * prompt_share);
  if (draw_s > 0) text += fmt::format(", others {:.2f} ms each", 1000 * draw_s);
  text += "\n  bound by";
  constexpr double kWorthAWord = 0.005;
  for (const Prediction::Part& part : critical) {
    if (part.share >= kWorthAWord) text += fmt::format(" {} {:.0f} %", part.name, 100 * part.share);
  }
  return text + "\n";
}

}  // namespace strata
