// Lists what may take the place of a rule's value where time can be predicted: one function for
// each key gives the values that are worth a prediction. Which of them is taken is not decided
// here.

#pragma once

#include <string>
#include <vector>

#include "strata/plan/choose_placement.h"
#include "strata/plan/plan_choices.h"
#include "strata/plan/setup.h"

namespace strata {

/// A value of a key, and all choices with it.
struct Candidate {
  std::string value;
  PlanChoices choices;
  double worth = kWorthChanging;  ///< it is taken if it needs less than this share of the time
};

/// The values of one key. There are no candidates if the config names the key, or if there is
/// nothing to choose.
struct Candidates {
  std::string key;
  std::string rule;  ///< the value that the rule has chosen
  std::vector<Candidate> others{};
  bool ordered = false;  ///< after one that is clearly slower than one before it, none is faster
};

/// What has been chosen so far.
struct ChosenSoFar {
  const RunConfig& given;  ///< what it names is not chosen
  const PlanChoices& choices;
  const Setup& setup;  ///< of these choices
};

/// Returns halves of the rule's number, up to twice of it and as far as a gradient ring allows.
[[nodiscard]] Candidates deferred_candidates(const ChosenSoFar& so_far);
/// Returns shares of interleaved layers, ascending.
[[nodiscard]] Candidates interleave_candidates(const ChosenSoFar& so_far);
/// Returns what differs from what the rule spills: nothing, and levels for all cells. What the rule
/// spills saves compute and fits an idle link by a rough account; whether it comes back in time
/// only a timeline tells.
[[nodiscard]] Candidates spill_candidates(const ChosenSoFar& so_far);

/// Returns true if what a setup spills is within what the rule may take of the host. A level that a
/// candidate names has not asked for it yet.
[[nodiscard]] bool spills_within_rule(const Setup& setup, const RunConfig& given);

}  // namespace strata
