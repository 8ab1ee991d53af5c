// The header and the lines share one list of columns, so that names stand above their figures. The
// widths are those of the last step's figures, which are the widest.

#include "strata/train/progress.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "strata/base/log.h"
#include "strata/base/text.h"

namespace strata {

namespace {

constexpr std::size_t kWindowSteps = 32;

/// Returns a local time as "2026-11-22 17:06".
std::string format_time(std::time_t when) {
  std::tm local{};
  localtime_r(&when, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &local);
  return text.data();
}

/// The figures of a line, or their names, as texts.
struct Columns {
  std::string step, tokens, loss, margin, preferred, norm, lr, tokens_per_s, targets_per_s, mfu,
      attended, left, end;
};

std::string layout(const Columns& c, const ProgressGoal& goal) {
  const std::size_t step_width =
      std::max<std::size_t>(4, 2 * std::to_string(goal.steps).size() + 1);
  const std::size_t tokens_width =
      std::max<std::size_t>(6, format_count(goal.steps * goal.tokens_per_step).size());
  std::string rates = fmt::format("{:>9}  ", c.tokens_per_s);
  if (goal.has_targets) rates += fmt::format("{:>9}  ", c.targets_per_s);
  if (goal.has_mfu) rates += fmt::format("{:>5}  ", c.mfu);
  if (goal.has_mfu && goal.has_masks) rates += fmt::format("{:>8}  ", c.attended);
  std::string loss = fmt::format("{:>8}", c.loss);
  if (goal.has_pairs) loss += fmt::format("  {:>8}  {:>9}", c.margin, c.preferred);
  return fmt::format("{:>{}}  {:>{}}  {}  {:>9}  {:>8}  {}{:>6}  {}", c.step, step_width, c.tokens,
                     tokens_width, loss, c.norm, c.lr, rates, c.left, c.end);
}

}  // namespace

Progress::Progress(const ProgressGoal& goal) : goal_(goal) {}

void Progress::add(const StepMetrics& m) {
  const bool only_first = window_.size() == 1 && last_.step == 1;
  if (only_first || window_.size() == kWindowSteps) window_.pop_front();
  window_.push_back({.loss = m.loss,
                     .tokens = static_cast<double>(m.tokens),
                     .seconds = m.step_s,
                     .mfu_seconds = m.mfu.value_or(0) * m.step_s,
                     .targets = static_cast<double>(m.targets),
                     .attended_seconds = m.attended_mfu.value_or(0) * m.step_s});
  last_ = m;
  tokens_ += m.tokens;
  if (!m.loss) return;
  line_loss_ += *m.loss;
  line_margin_ += m.reward_margin;
  line_preferred_ += m.preferred;
  ++line_steps_;
}

void Progress::add_validation(double seconds) {
  validation_s_ = seconds;
  ++validations_;
}

double Progress::sum(double Step::*member) const {
  double total = 0;
  for (const Step& step : window_) total += step.*member;
  return total;
}

std::optional<double> Progress::recent_loss() const {
  double total = 0;
  int steps = 0;
  for (const Step& step : window_) {
    total += step.loss.value_or(0);
    steps += step.loss ? 1 : 0;
  }
  return steps > 0 ? std::optional(total / steps) : std::nullopt;
}

double Progress::eta_s() const {
  if (window_.empty()) return 0;
  const double step_s = sum(&Step::seconds) / static_cast<double>(window_.size());
  return step_s * static_cast<double>(goal_.steps - last_.step) +
         validation_s_ * static_cast<double>(goal_.validations - validations_);
}

std::string Progress::header() const {
  return layout({.step = "step",
                 .tokens = "tokens",
                 .loss = "loss",
                 .margin = "margin",
                 .preferred = "preferred",
                 .norm = "grad norm",
                 .lr = "lr",
                 .tokens_per_s = "tokens/s",
                 .targets_per_s = "targets/s",
                 .mfu = "MFU",
                 .attended = "attended",
                 .left = "left",
                 .end = "end"},
                goal_);
}

std::string Progress::line(std::time_t now) const {
  const double seconds = sum(&Step::seconds);
  const auto per_second = [&](double amount) { return seconds > 0 ? amount / seconds : 0.0; };
  const double left_s = eta_s();
  const auto mean = [&](double line_sum) { return line_sum / static_cast<double>(line_steps_); };
  return layout(
      {.step = fmt::format("{}/{}", last_.step, goal_.steps),
       .tokens = format_count(goal_.tokens_before + tokens_),
       .loss = line_steps_ > 0 ? fmt::format("{:.4f}", mean(line_loss_)) : "-",
       .margin = line_steps_ > 0 ? fmt::format("{:.4f}", mean(line_margin_)) : "-",
       .preferred = line_steps_ > 0 ? fmt::format("{:.1f}%", 100 * mean(line_preferred_)) : "-",
       .norm = fmt::format("{:.4g}", last_.grad_norm),
       .lr = fmt::format("{:.2e}", last_.lr),
       .tokens_per_s = format_count(std::llround(per_second(sum(&Step::tokens)))),
       .targets_per_s = format_count(std::llround(per_second(sum(&Step::targets)))),
       .mfu = fmt::format("{:.1f}%", 100 * per_second(sum(&Step::mfu_seconds))),
       .attended = fmt::format("{:.1f}%", 100 * per_second(sum(&Step::attended_seconds))),
       .left = format_duration(left_s),
       .end = format_time(now + static_cast<std::time_t>(left_s))},
      goal_);
}

void Progress::begin_line() {
  line_loss_ = 0;
  line_margin_ = 0;
  line_preferred_ = 0;
  line_steps_ = 0;
}

}  // namespace strata
