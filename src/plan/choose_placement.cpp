#include "strata/plan/choose_placement.h"

#include <algorithm>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/narrow.h"
#include "strata/plan/prediction.h"

namespace strata {

namespace {

/// Shares of interleaved layers, ascending. Finer ones differ by less than predictions tell.
constexpr double kShares[] = {0.125, 0.25, 0.375, 0.5, 0.75, 1};

/// A value of a key, and the choices with it.
struct Candidate {
  std::string value;
  PlanChoices choices;
  double worth = kWorthChanging;  ///< taken if it needs less than this share of the rule's time
};

/// Returns true if what cells spill, of a level that a candidate names, is no more than "auto" may
/// take.
bool may_spill(const Setup& s, const MemorySection& given) {
  return Room(s.budget, given).allows_spills(s.use(), s.plan.bytes(Space::kPinned, "kept.spilled"));
}

class Chooser {
 public:
  /// `rule`: what the rules make of `config`, which is predicted to take `step_s`.
  Chooser(const RunConfig& config, const PlacementQueries& queries, Setup rule, double step_s)
      : given_(config),
        queries_(queries),
        choices_(choices_by_rule(config)),
        best_{.setup = std::move(rule), .choices = {}},
        step_s_(step_s) {}

  Placement choose() && {
    const auto blocks = static_cast<int>(best_.setup.layout.blocks.size());
    if (best_.setup.choices.resident_units < blocks) {
      choose_deferred();
      choose_interleave();
    }
    // Last: the rule of "auto" fits beside whatever else is chosen, a level need not.
    choose_spill();
    return std::move(best_);
  }

 private:
  /// Takes the fastest candidate that is worth it. If candidates are ordered, those behind one that
  /// is clearly slower than one before it are not looked at.
  void choose(std::string key, std::string rule, const std::vector<Candidate>& candidates,
              bool ordered = false) {
    std::optional<Setup> setup;
    const Candidate* fastest = nullptr;
    double fastest_s = 0;
    bool worth_it = false;
    for (const Candidate& candidate : candidates) {
      std::optional<Setup> tried = setup_that_fits(candidate.choices);
      const std::optional<double> step_s = tried ? queries_.step_s(*tried) : std::nullopt;
      if (!step_s) continue;
      const bool worth = *step_s < candidate.worth * step_s_;
      if (fastest == nullptr || worth > worth_it || (worth == worth_it && *step_s < fastest_s)) {
        fastest = &candidate;
        fastest_s = *step_s;
        worth_it = worth;
        setup = std::move(tried);
      }
      if (ordered && std::min(fastest_s, step_s_) < kWorthChanging * *step_s) break;
    }
    if (fastest == nullptr) return;
    PlacementChoice choice{.key = std::move(key),
                           .value = std::move(rule),
                           .step_s = step_s_,
                           .other = fastest->value,
                           .other_s = fastest_s};
    if (worth_it) {
      std::swap(choice.value, choice.other);
      std::swap(choice.step_s, choice.other_s);
      choices_ = fastest->choices;
      best_.setup = *std::move(setup);
      step_s_ = fastest_s;
    }
    best_.choices.push_back(std::move(choice));
  }

  /// Levels of spilling that a config names may fill what is left to others.
  [[nodiscard]] std::optional<Setup> setup_that_fits(const PlanChoices& choices) const {
    try {
      Setup setup = queries_.setup(choices);
      const bool spills = choices.spill.value_or(KeepLevel::kRecompute) > KeepLevel::kRecompute;
      if (spills && !given_.schedule.spill && !may_spill(setup, given_.memory)) {
        return std::nullopt;
      }
      return setup;
    } catch (const OutOfMemory&) {
      return std::nullopt;
    }
  }

  /// Halves of the rule's number, up to twice of it.
  void choose_deferred() {
    const OptimizerSection& o = given_.optimizer;
    if (o.deferred_units || o.timing == UpdateTiming::kBeforeUse) return;
    const std::int64_t rule = best_.setup.choices.deferred_units;
    const auto blocks = static_cast<std::int64_t>(best_.setup.layout.blocks.size());
    const std::int64_t most = std::min(blocks, o.gradient_ring.value_or(blocks + 2) - 2);
    std::vector<Candidate> candidates;
    std::int64_t last = -1;
    for (const std::int64_t halves : {0, 1, 3, 4}) {
      const std::int64_t units = std::min(most, (halves * rule + 1) / 2);
      if (units == rule || units == std::exchange(last, units)) continue;
      candidates.push_back({std::to_string(units), choices_});
      candidates.back().choices.deferred_units = narrow<int>(units);
    }
    choose("optimizer.deferred_units", std::to_string(rule), candidates);
  }

  void choose_interleave() {
    if (given_.optimizer.interleave) return;
    std::vector<Candidate> candidates;
    for (const double share : kShares) {
      candidates.push_back({fmt::format("{}", share), choices_});
      candidates.back().choices.interleave = share;
    }
    choose("optimizer.interleave", "0", candidates, true);
  }

  /// What the rule spills saves compute and fits an idle link by a rough account; whether it comes
  /// back in time only a timeline tells. Slots of boundaries are the rule's.
  void choose_spill() {
    if (given_.schedule.spill || given_.schedule.activations) return;
    const Setup& s = best_.setup;
    std::vector<Candidate> candidates;
    const auto add = [&](std::string value, KeepLevel level, int slots, double worth) {
      candidates.push_back({std::move(value), choices_, worth});
      candidates.back().choices.spill = level;
      candidates.back().choices.activation_slots = slots;
    };
    const KeepLevel off = KeepLevel::kRecompute;
    if (s.kept.levels != s.kept.reach) add("off", off, s.activation_slots, 1);
    if (s.activations.homes(s.activation_slots) > 0 && !given_.schedule.activation_slots) {
      add("off and all boundaries on the device", off, s.activations.keys(), 1);
    }
    if (s.recompute_flops_per_token() > 0 && may_spill(s, given_.memory)) {
      for (const KeepLevel level :
           {KeepLevel::kAttentionOut, KeepLevel::kSelective, KeepLevel::kFull}) {
        add(std::string(name_of(level)), level, s.activation_slots, kWorthChanging);
      }
    }
    choose("schedule.spill", "auto", candidates);
  }

  const RunConfig& given_;  ///< what it names is not chosen
  const PlacementQueries& queries_;
  PlanChoices choices_;  ///< with what has been chosen
  Placement best_;
  double step_s_;
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

Placement choose_placement(const RunConfig& config, const PlacementQueries& queries) {
  Setup rule = queries.setup(choices_by_rule(config));
  const std::optional<double> step_s = queries.step_s(rule);
  if (!step_s) return {.setup = std::move(rule), .choices = {}};
  return Chooser(config, queries, std::move(rule), *step_s).choose();
}

Placement choose_placement(const RunConfig& config, const PlannedRank& planned) {
  return choose_placement(
      config,
      {.setup = [&](const PlanChoices& choices) { return make_setup(config, choices, planned); },
       .step_s = [&](const Setup& s) { return predict_step_s(s, planned.device); }});
}

}  // namespace strata
