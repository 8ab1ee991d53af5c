// Searches for keys that let a run fit together. Each stage allows more than the one before it, and
// the first in which a way to run fits is taken. Of its ways that one is taken which `tune` would
// prefer among equally fast ones. In the end every key that turns out not to be needed gets its
// value back.

#include "plan/fitting_changes.h"

#include <algorithm>

#include "plan/require_fit.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/config/assignments.h"
#include "strata/ops/moment_codes.h"
#include "strata/plan/tune_space.h"
#include "strata/predict/prediction.h"

namespace strata {

namespace {

std::int64_t step_rows_of(const ScheduleSection& schedule) {
  return schedule.rows * schedule.sub_batches * schedule.passes;
}

bool fits(const RunConfig& config, const PlannedRank& planned) {
  return shortage_of(plan_setup(config, choices_by_rule(config), planned)) == Shortage::kNone;
}

/// Returns a config that leaves to the planner how memory is shared, which changes no numbers.
RunConfig with_open_memory(RunConfig config) {
  ScheduleSection& schedule = config.schedule;
  schedule.activations.reset();
  schedule.activation_slots.reset();
  schedule.spill.reset();
  schedule.resident_units.reset();
  schedule.gradient_sums = GradientSums::kAuto;
  config.optimizer.deferred_units.reset();
  config.optimizer.interleave.reset();
  config.optimizer.undo_log.reset();
  return config;
}

/// Cells that are planned for all ways of a stage together: a refusal of the largest steps should
/// not take longer than a plan.
constexpr std::int64_t kMostCells = std::int64_t{1} << 20;

/// Returns the first way to run a base, as `tune` lists them, that fits.
std::optional<RunConfig> first_that_fits(const RunConfig& base, const TuneSpace& space,
                                         const PlannedRank& planned) {
  std::int64_t cells = 0;
  for (const TuneKeys& keys : tune_candidates(base, space)) {
    RunConfig config = keys.put_into(base);
    cells += keys.sub_batches * (config.model.llama.num_hidden_layers + 1);
    if (cells > kMostCells) break;
    if (fits(config, planned)) return config;
  }
  return std::nullopt;
}

std::optional<RunConfig> find(const RunConfig& given, const PlannedRank& planned) {
  std::vector<RunConfig> bases{with_open_memory(given)};
  for (const DType moment : smaller_moments(given)) {
    bases.push_back(bases.front());
    bases.back().optimizer.moment_dtype = moment;
  }
  const TuneSpace cut{.step_rows = step_rows_of(given.schedule),
                      .timing = false,
                      .gradient_ring = !given.optimizer.grad_clip};
  const auto first_of_bases = [&](const TuneSpace& space) {
    std::optional<RunConfig> found;
    for (std::size_t i = 0; i < bases.size() && !found; ++i) {
      found = first_that_fits(bases[i], space, planned);
    }
    return found;
  };
  if (std::optional<RunConfig> found = first_of_bases(cut)) return found;
  // Gradients that are not clipped wait for nothing, so a few places are enough for all.
  for (RunConfig& base : bases) {
    base.optimizer.grad_clip.reset();
    base.optimizer.timing = UpdateTiming::kOnArrival;
    base.optimizer.gradient_ring.reset();
  }
  TuneSpace ring = cut;
  ring.gradient_ring = true;
  if (std::optional<RunConfig> found = first_of_bases(ring)) return found;
  if (bases.size() > 1) bases.erase(bases.begin());
  const auto first_of_fewer_tokens = [&](TuneSpace space) {
    std::optional<RunConfig> found;
    while (!found && space.step_rows % 2 == 0) {
      space.step_rows /= 2;
      found = first_of_bases(space);
    }
    return found;
  };
  if (std::optional<RunConfig> found = first_of_fewer_tokens(ring)) return found;
  const bool has_masters = given.optimizer.master == MasterWeights::kSplit;
  if (given.run.dtype != DType::kBF16 || !has_masters) return std::nullopt;
  for (RunConfig& base : bases) base.optimizer.master = MasterWeights::kNone;
  if (std::optional<RunConfig> found = first_of_bases(ring)) return found;
  return first_of_fewer_tokens(ring);
}

/// Leaves out what it fits without: how a step is cut, then key by key.
void drop_needless(const RunConfig& given, const PlannedRank& planned,
                   std::vector<std::string>& sets) {
  const std::int64_t step_rows = step_rows_of(with_assignments(given, sets).value().schedule);
  const auto go_on_with = [&](std::vector<std::string> fewer) {
    const std::optional<RunConfig> config = with_assignments(given, fewer);
    if (!config || step_rows_of(config->schedule) != step_rows) return false;
    if (!fits(*config, planned)) return false;
    sets = std::move(fewer);
    return true;
  };
  std::vector<std::string> uncut = sets;
  std::erase_if(uncut, [](const std::string& set) {
    return set.starts_with("schedule.rows=") || set.starts_with("schedule.sub_batches=") ||
           set.starts_with("schedule.passes=");
  });
  go_on_with(std::move(uncut));
  for (std::size_t i = 0; i < sets.size();) {
    std::vector<std::string> fewer = sets;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (!go_on_with(std::move(fewer))) ++i;
  }
}

/// Returns a sentence about those of the keys that change what is computed; else it is empty.
std::string consequences(const RunConfig& given, const RunConfig& found) {
  std::string what;
  const auto add = [&](bool changes, const char* words) {
    if (changes) what += (what.empty() ? "" : ", ") + std::string(words);
  };
  const DType moments = found.optimizer.moment_dtype;
  add(given.optimizer.moment_dtype != moments,
      moments == kMomentCode ? "moments in 8 bits" : "moments in bf16");
  add(given.optimizer.master != found.optimizer.master, "no master weights");
  add(given.optimizer.grad_clip && !found.optimizer.grad_clip, "no clipping");
  add(step_rows_of(given.schedule) != step_rows_of(found.schedule), "fewer tokens a step");
  return what.empty() ? "" : " (not the same run: " + what + ")";
}

}  // namespace

std::optional<FittingChanges> find_fitting_changes(const RunConfig& given,
                                                   const PlannedRank& planned) {
  const std::optional<RunConfig> found = find(given, planned);
  if (!found) return std::nullopt;
  FittingChanges changes{.sets = assignments(given, *found)};
  drop_needless(given, planned, changes.sets);
  const RunConfig config = with_assignments(given, changes.sets).value();
  const Setup setup = plan_setup(config, choices_by_rule(config), planned);
  const std::optional<double> step_s = predict_step_s(setup, setup.rated(planned.device));
  const auto tokens = static_cast<double>(config.step_tokens(planned.place.world()));
  if (step_s) changes.tokens_per_s = tokens / *step_s;
  return changes;
}

std::string fitting_text(const RunConfig& given, const PlannedRank& planned) {
  const std::optional<FittingChanges> changes = find_fitting_changes(given, planned);
  if (!changes || changes->sets.empty()) return {};
  std::string text = " It fits";
  if (changes->tokens_per_s) {
    text += fmt::format(", at {} tokens/s by prediction,",
                        format_count(static_cast<std::int64_t>(*changes->tokens_per_s)));
  }
  text += " with" + consequences(given, with_assignments(given, changes->sets).value()) + "\n ";
  for (const std::string& set : changes->sets) text += " --set " + set;
  return text + "\n";
}

}  // namespace strata
