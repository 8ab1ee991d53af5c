#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "strata/config/config.h"
#include "strata/plan/plan_choices.h"
#include "strata/plan/setup.h"

// Of what a config leaves open, make_setup decides by rules. Where a step can be predicted, the
// time it takes decides instead about optimizer.deferred_units, optimizer.interleave and
// schedule.spill, none of which changes a bit of the results.

namespace strata {

/// A rule's value gives way to another one that takes less than this share of its time: what
/// predictions of two placements of a run miss by differs less.
inline constexpr double kWorthChanging = 0.98;

/// What predictions said about one key.
struct PlacementChoice {
  std::string key;
  std::string value;  ///< chosen, the rule's if none was better
  double step_s = 0;  ///< predicted with it
  std::string other;  ///< what the rule says; if that was chosen, the best of the others
  double other_s = 0;

  /// "optimizer.interleave 0.25 chosen: 4.930 s a step predicted, 5.120 s with 0"
  [[nodiscard]] std::string to_string() const;
};

struct Placement {
  Setup setup;                           ///< its config holds what was chosen
  std::vector<PlacementChoice> choices;  ///< empty: the rules decided alone

  /// A line for each choice.
  [[nodiscard]] std::string to_string() const;
};

/// What choosing asks.
struct PlacementQueries {
  std::function<Setup(const PlanChoices&)> setup;  ///< make_setup; throws OutOfMemory
  /// Absent where it cannot be predicted.
  std::function<std::optional<double>(const Setup&)> step_s;
};

/// The setup of the fastest values of what `given` leaves open, among those that fit. What it
/// names stays. A pure function of its arguments. Throws OutOfMemory if the rules' setup does not
/// fit.
[[nodiscard]] Placement choose_placement(const RunConfig& given, const PlacementQueries& queries);

/// Chooses likewise by predictions for this rank. Several ranks get what the rules say.
[[nodiscard]] Placement choose_placement(const RunConfig& given, const PlannedRank& planned);

}  // namespace strata
