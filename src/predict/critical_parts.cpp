// Turns the seconds of a critical path into shares by lane, the largest first. Lanes keep their
// order where their shares are equal.

#include "predict/critical_parts.h"

#include <algorithm>
#include <functional>
#include <string>

#include "strata/device/lane.h"

namespace strata {

std::vector<Prediction::Part> critical_parts(std::span<const double> critical_s) {
  double all_s = 0;
  for (const double lane_s : critical_s) all_s += lane_s;
  std::vector<Prediction::Part> parts{{"submission", critical_s.back() / all_s}};
  for (int i = 0; i < kLaneCount; ++i) {
    parts.push_back({std::string(name_of(static_cast<Lane>(i))),
                     critical_s[static_cast<std::size_t>(i)] / all_s});
  }
  std::ranges::stable_sort(parts, std::ranges::greater{}, &Prediction::Part::share);
  return parts;
}

}  // namespace strata
