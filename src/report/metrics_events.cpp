// Adds events to a run's history. A run that goes back writes its steps again, after those that it
// did before. What holds is what was written last.

#include "report/metrics_events.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/json_lines.h"
#include "strata/base/json.h"
#include "strata/base/text.h"

namespace strata {

namespace {

using Json = nlohmann::json;

template <class T>
void forget(std::vector<T>& list, std::int64_t from) {
  std::erase_if(list, [from](const T& entry) { return entry.step >= from; });
}

/// Returns what a step's line tells of why it was not applied.
std::string why_skipped(const Json& line) {
  const auto names = line.find("nonfinite");
  if (names == line.end() || !names->is_object() || names->empty()) return "";
  std::string text;
  for (const auto& [key, value] : names->items()) {
    text += (text.empty() ? "" : ", ") + key + " is " +
            (value.is_string() ? value.get<std::string>() : "not finite");
  }
  return text;
}

/// Returns the member of this name if it is of this kind, else null.
const Json* member(const Json& object, std::string_view key, Json::value_t type) {
  const auto found = object.find(std::string(key));
  return found != object.end() && found->type() == type ? &*found : nullptr;
}

/// Looks for layers of an operand that have lost more than the worst so far.
void look_at(const Json& operand, std::string_view name, std::optional<Fp8Worst>& worst) {
  constexpr auto kArray = Json::value_t::array;
  const Json* const flushed = member(operand, "flushed", kArray);
  const Json* const subnormal = member(operand, "subnormal", kArray);
  const Json* const amax = member(operand, "amax", kArray);
  if (flushed == nullptr || subnormal == nullptr || amax == nullptr) return;
  const std::size_t layers = std::min({flushed->size(), subnormal->size(), amax->size()});
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const auto number = [layer](const Json* list) {
      const Json& value = (*list)[layer];
      return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
    };
    const double share = number(flushed);
    if (!(share >= 0) || (worst && worst->flushed >= share)) continue;
    worst = Fp8Worst{.operand = std::string(name),
                     .layer = static_cast<std::int64_t>(layer),
                     .flushed = share,
                     .subnormal = number(subnormal),
                     .amax = number(amax)};
  }
}

constexpr std::string_view kBusy = "_busy_s";
constexpr std::string_view kExposed = "_exposed_s";

}  // namespace

bool MetricsEvents::take(const Json& line) {
  const std::string event = text_of(line, "event");
  if (event.empty()) return false;
  const bool taken = event == "step"         ? take_step(line)
                     : event == "eval"       ? take_eval(line)
                     : event == "start"      ? take_begin(line, false)
                     : event == "resume"     ? take_begin(line, true)
                     : event == "trace"      ? take_trace(line)
                     : event == "fp8"        ? take_fp8(line)
                     : event == "checkpoint" ? take_checkpoint(line)
                     : event == "rollback"   ? take_rollback(line)
                     : event == "end"        ? take_end(line)
                                             : true;
  any_ = any_ || taken;
  return taken;
}

bool MetricsEvents::take_begin(const Json& line, bool resumes) {
  const std::int64_t step = resumes ? step_of(line).value_or(-1) : 0;
  if (step < 0) return false;
  forget_after(step);
  if (!resumes) {
    run_.rollbacks.clear();
    run_.resumes.clear();
  }
  run_.end_reason.clear();
  run_.memory = {};
  for (const auto& [key, value] : line.items()) {
    if (key == "event" || key == "step" || key == "checkpoint") continue;
    if (value.is_string()) run_.facts[printable_name(key)] = value.get<std::string>();
    if (value.is_number()) run_.facts[printable_name(key)] = json_text(value);
  }
  run_.memory.device_planned = known_number(line, "device_planned_bytes");
  run_.memory.host_planned = known_number(line, "host_planned_bytes");
  if (resumes) run_.resumes.push_back({.step = step, .checkpoint = text_of(line, "checkpoint")});
  return true;
}

bool MetricsEvents::take_step(const Json& line) {
  const std::int64_t step = step_of(line).value_or(0);
  if (step < 1) return false;
  StepSeries& s = run_.steps;
  if (!s.step.empty() && s.step.back() >= step) forget_steps_from(step);
  s.step.push_back(step);
  s.loss.push_back(number_of(line, "loss"));
  s.grad_norm.push_back(number_of(line, "grad_norm"));
  s.lr.push_back(number_of(line, "lr"));
  s.tokens_per_s.push_back(number_of(line, "tokens_per_s"));
  s.targets_per_s.push_back(number_of(line, "targets_per_s"));
  s.mfu.push_back(number_of(line, "mfu"));
  s.mfu_attended.push_back(number_of(line, "mfu_attended"));
  s.reward_margin.push_back(number_of(line, "reward_margin"));
  s.preferred.push_back(number_of(line, "preferred"));
  s.tokens.push_back(number_of(line, "tokens"));
  s.seconds.push_back(number_of(line, "step_s"));
  if (!truth_of(line, "applied", true)) {
    run_.skipped.push_back({.step = step, .what = why_skipped(line)});
  }
  return true;
}

bool MetricsEvents::take_eval(const Json& line) {
  const std::int64_t step = step_of(line).value_or(-1);
  if (step < 0) return false;
  forget(run_.validations, step);
  run_.validations.push_back({.step = step, .loss = number_of(line, "val_loss")});
  return true;
}

bool MetricsEvents::take_trace(const Json& line) {
  LaneTimes times;
  times.step = step_of(line).value_or(0);
  if (times.step < 1) return false;
  for (const auto& [key, value] : line.items()) {
    if (!key.ends_with(kBusy) || !value.is_number()) continue;
    LaneTime lane{.lane = key.substr(0, key.size() - kBusy.size()), .busy_s = value.get<double>()};
    const double exposed_s = number_of(line, lane.lane + std::string(kExposed));
    lane.exposed_s = exposed_s > 0 ? exposed_s : 0;
    (lane.lane == "updates" ? times.updates : times.lanes.emplace_back()) = lane;
  }
  // Objects that were parsed are sorted by key; lanes have an order of their own.
  constexpr std::string_view kOrder[] = {"compute", "weights_in", "activations_in", "out", "comm",
                                         "host",    "save"};
  std::ranges::stable_sort(times.lanes, {}, [&](const LaneTime& lane) {
    return std::ranges::find(kOrder, lane.lane) - std::begin(kOrder);
  });
  forget(run_.traced, times.step);
  run_.traced.push_back(std::move(times));
  return true;
}

bool MetricsEvents::take_fp8(const Json& line) {
  constexpr auto kObject = Json::value_t::object;
  Fp8Step lost{.step = step_of(line).value_or(0)};
  if (lost.step < 1) return false;
  for (const char* linear : {"qkv", "attention_out", "gate_up", "down"}) {
    const Json* const operands = member(line, linear, kObject);
    if (operands == nullptr) continue;
    std::optional<Fp8Worst> worst;
    for (const char* name : {"x", "w", "w_transposed", "dy", "x_columns", "dy_columns"}) {
      if (const Json* const operand = member(*operands, name, kObject)) {
        look_at(*operand, name, worst);
      }
    }
    if (!worst) continue;
    worst->linear = linear;
    lost.linears.push_back(std::move(*worst));
  }
  forget(run_.fp8, lost.step);
  run_.fp8.push_back(std::move(lost));
  return true;
}

bool MetricsEvents::take_checkpoint(const Json& line) {
  const std::int64_t step = step_of(line).value_or(-1);
  if (step < 0) return false;
  run_.saves.push_back({.step = step,
                        .weights_alone = truth_of(line, "weights_alone", false),
                        .saved = truth_of(line, "saved", false),
                        .seconds = number_of(line, "seconds"),
                        .bytes = number_of(line, "bytes"),
                        .failure = text_of(line, "failure")});
  return true;
}

bool MetricsEvents::take_rollback(const Json& line) {
  const std::int64_t step = step_of(line).value_or(0);
  if (step < 1) return false;
  run_.rollbacks.push_back({.step = step, .what = text_of(line, "what")});
  return true;
}

bool MetricsEvents::take_end(const Json& line) {
  run_.end_reason = text_of(line, "reason");
  if (run_.end_reason.empty()) return false;
  run_.memory.device_measured = known_number(line, "device_measured_bytes");
  run_.memory.host_peak = known_number(line, "host_peak_bytes");
  const std::int64_t lost = integer_of(line, "lost_lines").value_or(0);
  lost_lines_ = std::min(kMostCount, lost_lines_ + std::clamp<std::int64_t>(lost, 0, kMostCount));
  return true;
}

void MetricsEvents::forget_steps_from(std::int64_t step) {
  StepSeries& s = run_.steps;
  const auto kept =
      static_cast<std::size_t>(std::ranges::lower_bound(s.step, step) - s.step.begin());
  s.step.resize(kept);
  for (std::vector<double>* values :
       {&s.loss, &s.grad_norm, &s.lr, &s.tokens_per_s, &s.targets_per_s, &s.mfu, &s.mfu_attended,
        &s.reward_margin, &s.preferred, &s.tokens, &s.seconds}) {
    values->resize(kept);
  }
  forget(run_.skipped, step);
}

/// Forgets what came after a step that the run went back to. Rollbacks stay, since they tell why.
void MetricsEvents::forget_after(std::int64_t step) {
  forget_steps_from(step + 1);
  forget(run_.validations, step + 1);
  forget(run_.saves, step + 1);
  forget(run_.traced, step + 1);
  forget(run_.fp8, step + 1);
}

}  // namespace strata
