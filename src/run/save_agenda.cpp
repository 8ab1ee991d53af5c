// What is due stays due until begun() is called.

#include "strata/run/save_agenda.h"

#include <array>

namespace strata {

SaveKinds SaveAgenda::due(std::int64_t done, double now_s) {
  if (due_.any()) ++waited_;  // the last call said so, and nothing has begun
  constexpr double kMinute = 60;
  const auto multiple = [done](const std::optional<std::int64_t>& steps) {
    return steps && done % *steps == 0;
  };
  due_.whole = due_.whole || asked_ || multiple(config_.every_steps) ||
               multiple(config_.milestone_steps) ||
               (config_.every_minutes && now_s - last_s_ >= kMinute * *config_.every_minutes) ||
               (config_.at_end && done == steps_);
  due_.weights = due_.weights || multiple(config_.weights_every_steps);
  return due_;
}

void SaveAgenda::begun(const SaveKinds& kinds, std::int64_t done, double now_s) {
  if (kinds.weights) due_.weights = false;
  if (!kinds.whole) return;
  due_.whole = false;
  asked_ = false;
  saved_.push_back(done);
  last_s_ = now_s;
}

SaveKinds wanted_by_any(const SaveKinds& own, Ranks& ranks) {
  std::array<double, 2> wanting{own.whole ? 1.0 : 0.0, own.weights ? 1.0 : 0.0};
  ranks.all_reduce_sum(wanting, Channel::kSubmit);
  return {.whole = wanting[0] > 0, .weights = wanting[1] > 0};
}

}  // namespace strata
