// What is due stays due until begun() is called.

#include "strata/train/save_agenda.h"

#include <algorithm>
#include <array>

namespace strata {

SaveKinds SaveAgenda::fall_due(std::int64_t done, double now_s) const {
  constexpr double kMinute = 60;
  const auto multiple = [done](const std::optional<std::int64_t>& steps) {
    return steps && done % *steps == 0;
  };
  SaveKinds due = due_;
  due.whole = due.whole || asked_ || multiple(config_.every_steps) ||
              multiple(config_.milestone_steps) ||
              (config_.every_minutes && now_s - last_s_ >= kMinute * *config_.every_minutes) ||
              (config_.at_end && done == steps_);
  due.weights = due.weights || multiple(config_.weights_every_steps);
  return due;
}

SaveKinds SaveAgenda::due(std::int64_t done, double now_s) {
  if (due_.any()) ++waited_;  // the last call said so, and nothing has begun
  due_ = fall_due(done, now_s);
  return due_;
}

int SaveAgenda::ahead(std::int64_t done, double now_s, int under_way) const {
  const int due = fall_due(done, now_s).any() ? 1 : 0;
  if (config_.at_end) return std::max(under_way, due) + 1;  // what is due goes into the last one
  return under_way + due;
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
