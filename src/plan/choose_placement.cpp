// Chooses the placement of a run: it plans what the rules say first, and then tries, key by key,
// the candidates that may be faster. Where a step can be predicted its time picks; where it cannot,
// the rules stay.

#include "strata/plan/choose_placement.h"

#include <algorithm>
#include <utility>

#include "plan/candidates.h"
#include "plan/refusal.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/predict/prediction.h"

namespace strata {

namespace {

/// A candidate that fits, and what it is predicted to take.
struct Tried {
  const Candidate* candidate = nullptr;
  Setup setup;
  double step_s = 0;
  bool worth_it = false;  ///< so much faster than the rule's value that it may be taken

  [[nodiscard]] bool better_than(const Tried& other) const {
    return worth_it != other.worth_it ? worth_it : step_s < other.step_s;
  }
};

class Planner {
 public:
  /// Plans what the rules say. Throws OutOfMemory if that does not fit.
  Planner(const RunConfig& given, const PlacementQueries& queries)
      : given_(given),
        queries_(queries),
        choices_(choices_by_rule(given)),
        best_{.setup = queries.setup(choices_), .choices = {}} {}

  Placement plan() && {
    best_.step_s = queries_.rule_s ? queries_.rule_s : queries_.step_s(best_.setup);
    if (!best_.step_s) return std::move(best_);
    const auto units = static_cast<int>(best_.setup.model->units.size());
    if (best_.setup.choices.resident_units < units) {  // else nobody updates on the host
      pick(deferred_candidates({given_, choices_, best_.setup}));
      pick(interleave_candidates({given_, choices_, best_.setup}));
    }
    // Last: the rule of "auto" fits beside whatever else is chosen, a level need not.
    pick(spill_candidates({given_, choices_, best_.setup}));
    return std::move(best_);
  }

 private:
  /// Takes the best candidate of a key if it is worth it, and notes the choice. What it is compared
  /// with is what was chosen so far, in which this key has the rule's value.
  void pick(const Candidates& list) {
    std::optional<Tried> best = best_of(list);
    if (!best) return;
    PlacementChoice choice{.key = list.key,
                           .value = list.rule,
                           .step_s = *best_.step_s,
                           .other = best->candidate->value,
                           .other_s = best->step_s};
    if (best->worth_it) {
      std::swap(choice.value, choice.other);
      std::swap(choice.step_s, choice.other_s);
      choices_ = best->candidate->choices;
      best_.setup = std::move(best->setup);
      best_.step_s = best->step_s;
    }
    best_.choices.push_back(std::move(choice));
  }

  [[nodiscard]] std::optional<Tried> best_of(const Candidates& list) const {
    std::optional<Tried> best;
    for (const Candidate& candidate : list.others) {
      std::optional<Tried> tried = try_out(candidate);
      if (!tried) continue;
      const double step_s = tried->step_s;
      if (!best || tried->better_than(*best)) best = std::move(tried);
      if (list.ordered && std::min(best->step_s, *best_.step_s) < kWorthChanging * step_s) break;
    }
    return best;
  }

  /// Returns nothing for a candidate that does not fit, cannot be predicted, or cannot be worth it.
  [[nodiscard]] std::optional<Tried> try_out(const Candidate& candidate) const {
    std::optional<Setup> setup = setup_that_fits(candidate.choices);
    const double worth_s = candidate.worth * *best_.step_s;
    if (setup && queries_.least_s && queries_.least_s(*setup) >= worth_s) return std::nullopt;
    const std::optional<double> step_s = setup ? queries_.step_s(*setup) : std::nullopt;
    if (!step_s) return std::nullopt;
    return Tried{.candidate = &candidate,
                 .setup = *std::move(setup),
                 .step_s = *step_s,
                 .worth_it = *step_s < worth_s};
  }

  /// A level of spilling that a candidate names may not fill what is left to others, unlike one
  /// that the config names.
  [[nodiscard]] std::optional<Setup> setup_that_fits(const PlanChoices& choices) const {
    try {
      Setup setup = queries_.setup(choices);
      const bool spills = choices.spill.value_or(KeepLevel::kRecompute) > KeepLevel::kRecompute;
      const bool by_choice = spills && !given_.schedule.spill;
      if (by_choice && !spills_within_rule(setup, given_)) return std::nullopt;
      return setup;
    } catch (const OutOfMemory&) {
      return std::nullopt;
    }
  }

  const RunConfig& given_;
  const PlacementQueries& queries_;
  PlanChoices choices_;  ///< with what has been chosen
  Placement best_;       ///< its setup is that of these choices
};

}  // namespace

std::string PlacementChoice::to_string() const {
  return fmt::format("{} {} chosen: {:.3f} s a step predicted, {:.3f} s with {}", key, value,
                     step_s, other_s, other);
}

std::string Placement::to_string() const {
  std::string text;
  for (const PlacementChoice& choice : choices) text += choice.to_string() + "\n";
  return text;
}

Placement choose_placement(const RunConfig& given, const PlacementQueries& queries) {
  return Planner(given, queries).plan();
}

Placement choose_placement(const RunConfig& given, const PlannedRank& planned) {
  try {
    return choose_placement(
        given,
        {.setup = [&](const PlanChoices& c) { return make_setup(given, c, planned); },
         .step_s = [&](const Setup& s) { return predict_step_s(s, s.rated(planned.device)); }});
  } catch (const OutOfMemory&) {
    throw OutOfMemory(refusal(given, planned));
  }
}

}  // namespace strata
