// The planner's entry for commands and sessions: the setup that a config stands for on a machine.
// Rules decide what the config leaves open. Where a step can be predicted, the time it takes
// decides instead about optimizer.deferred_units, optimizer.interleave and schedule.spill, none of
// which changes a bit of the results.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "strata/config/config.h"
#include "strata/plan/plan_choices.h"
#include "strata/plan/setup.h"

namespace strata {

/// A rule's value gives way to another one that takes less than this share of its time. What
/// predictions of two placements of a run miss by differs less than that.
inline constexpr double kWorthChanging = 0.98;

/// What predictions said about one key.
struct PlacementChoice {
  std::string key;
  std::string value;  ///< chosen, the rule's if none was better
  double step_s = 0;  ///< predicted with it
  std::string other;  ///< what the rule says; if that was chosen, the best of the others
  double other_s = 0;

  /// Returns "optimizer.interleave 0.25 chosen: 4.930 s a step predicted, 5.120 s with 0".
  [[nodiscard]] std::string to_string() const;
};

struct Placement {
  Setup setup;                           ///< it holds what was chosen
  std::vector<PlacementChoice> choices;  ///< empty: the rules decided alone
  std::optional<double> step_s{};        ///< predicted for the setup; absent: it cannot be

  /// Returns a line for each choice.
  [[nodiscard]] std::string to_string() const;
};

/// What choosing asks of others, so that tests can invent the answers.
struct PlacementQueries {
  std::function<Setup(const PlanChoices&)> setup;  ///< make_setup; throws OutOfMemory
  /// Returns the predicted seconds of a step, or nothing where it cannot be predicted.
  std::function<std::optional<double>(const Setup&)> step_s;
  /// What step_s says of the setup of the rules, where that is known already.
  std::optional<double> rule_s{};
  /// Returns seconds that step_s does not go below, in less time. What cannot be worth it by them
  /// is left out. It may be empty.
  std::function<double(const Setup&)> least_s{};
};

/// Returns the setup of the fastest values of what `given` leaves open, among those that fit. What
/// it names stays. It is a pure function of its arguments. Throws OutOfMemory if the setup of the
/// rules does not fit.
[[nodiscard]] Placement choose_placement(const RunConfig& given, const PlacementQueries& queries);

/// Returns the setup that predictions for this rank choose. It is the same on all ranks of one
/// budget and device, since none does more than another.
[[nodiscard]] Placement choose_placement(const RunConfig& given, const PlannedRank& planned);

}  // namespace strata
