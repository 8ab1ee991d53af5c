// Both tables name the keys of a candidate in the same columns. tune_page.h is the contract.

#include "commands/tune_page.h"

#include "commands/planned_machine.h"
#include "strata/base/bytes.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/config/assignments.h"

namespace strata {

namespace {

std::string limit_text(const char* of, const std::optional<std::size_t>& limit,
                       const std::string& origin) {
  if (!limit) return std::string(of) + " memory without a limit\n";
  return std::string(of) + " memory " + format_bytes(*limit) + " (" + origin + ")\n";
}

std::string ring_text(const TuneKeys& keys) {
  return keys.gradient_ring ? std::to_string(*keys.gradient_ring) : "-";
}

/// Returns "compute 97 %": the lane that makes up most of a step.
std::string bound_text(const Prediction& p) {
  if (p.critical.empty()) return "-";
  return fmt::format("{} {:.0f} %", p.critical.front().name, 100 * p.critical.front().share);
}

/// Returns "8bit, no masters, fp8_all products": moments, and what else is not as by default.
std::string numbers_text(const TuneNumbers& numbers) {
  std::string text(enum_name(kMomentDTypeNames, numbers.moment_dtype));
  if (numbers.master == MasterWeights::kNone) text += ", no masters";
  if (numbers.products != Products::kPlain) {
    text += ", " + std::string(enum_name(kProductsNames, numbers.products)) + " products";
  }
  if (numbers.base_format != Form::kPlain) {
    text += ", " + std::string(name_of(numbers.base_format)) + " base";
  }
  return text;
}

std::string keys_text(const TuneKeys& keys) {
  return fmt::format("{:>4} {:>4} {:>6}  {:<11} {:>4}  {}", keys.rows, keys.sub_batches,
                     keys.passes, enum_name(kUpdateTimingNames, keys.timing), ring_text(keys),
                     numbers_text(keys.numbers));
}

constexpr const char* kKeysHeader = "rows  sub passes  timing      ring  moments";

/// Returns the table of the best candidates.
std::string table(const TuneResult& result) {
  const auto gib = [](std::size_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(kGiB);
  };
  std::string text =
      fmt::format("{:>2} {:>10} {:>6} {:>10} {:>10} {:>9}  {:<20} {}\n", "", "tokens/s", "MFU",
                  "step s", "device GiB", "host GiB", "bound by", kKeysHeader);
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    const Tuned& t = result.best[i];
    const Prediction& p = t.prediction;
    const std::string mfu = p.mfu ? fmt::format("{:.1f} %", 100 * *p.mfu) : "-";
    const Setup& setup = t.placement.setup;
    text += fmt::format("{:>2} {:>10} {:>6} {:>10.3f} {:>10.1f} {:>9.1f}  {:<20} {}\n", i + 1,
                        format_count(static_cast<std::int64_t>(p.tokens_per_s)), mfu, p.step_s,
                        gib(setup.device_bytes()), gib(setup.host_bytes()), bound_text(p),
                        keys_text(t.keys));
  }
  return text;
}

/// Returns what a reader of the table should know about the chosen numbers.
std::string numbers_remark(const RunConfig& given, const TuneKeys& chosen) {
  TuneKeys back = chosen;
  back.numbers = TuneKeys::of(given).numbers;
  const RunConfig with = chosen.put_into(given);
  const RunConfig without = back.put_into(given);
  std::string what;
  std::string sets;
  for (const std::string& set : assignments(without, with))
    what += (what.empty() ? "" : ", ") + set;
  if (what.empty()) return {};
  for (const std::string& set : assignments(with, without)) sets += " --set " + set;
  return "not the same run: " + what + " (without --allow, or with" + sets +
         ", the numbers are those of the config)\n";
}

/// Returns what a reader of the table should know about the chosen timing.
std::string timing_remark(const TuneKeys& keys, bool timing_searched) {
  if (!timing_searched) return {};
  switch (keys.timing) {
    case UpdateTiming::kBeforeUse: return {};
    case UpdateTiming::kOnArrival:
      return "on_arrival ends the run at a gradient that is not finite, where before_use skips the "
             "step (--set optimizer.timing=before_use keeps to that)\n";
    case UpdateTiming::kSpeculative:
      return "speculative is predicted for steps that do not clip; those that do take longer\n";
  }
  return {};
}

/// Returns what was found as `--set` takes it.
std::string keys_as_sets(const TuneModel& model, const RunConfig& found) {
  std::string text;
  for (const std::string& set : model.option_sets) text += " --set " + set;
  for (const std::string& set : assignments(model.given, found)) text += " --set " + set;
  return text.empty() ? " nothing: the config is the best of what may be changed" : text;
}

}  // namespace

void TunePage::print(const std::string& text) const {
  std::fputs(text.c_str(), to_);
  std::fflush(to_);
}

std::string premises_text(const TuneModel& model, const TuneSpace& space, const DeviceInfo& device,
                          const PlannedRank& planned) {
  const RunConfig& base = model.base;
  const int ranks = planned.place.world();
  const std::int64_t rows = space.step_rows * ranks;
  const Budget& budget = planned.budget;
  const std::optional<double>& clip = base.optimizer.grad_clip;
  return device_text(device) +
         limit_text("device", budget.device_limit, budget.device_limit_origin) +
         limit_text("host", budget.host_limit, budget.host_limit_origin) +
         fmt::format("a step of {} tokens: {} row{} of {} on {} rank{}; ",
                     format_count(rows * base.data.sequence_length), rows, rows == 1 ? "" : "s",
                     base.data.sequence_length, ranks, ranks == 1 ? "" : "s") +
         (clip ? fmt::format("gradients are clipped at {}\n", *clip) : "no clipping\n");
}

std::string found_text(const TuneResult& result) {
  return fmt::format("predicted for {}\n{} ways to run it, {} fit, {} of them placed\n",
                     result.best.front().prediction.rates, result.candidates, result.fitting,
                     result.placed) +
         table(result);
}

std::string measured_head(std::int64_t steps) {
  return fmt::format("measured, the median of {} steps each:\n", steps) +
         fmt::format("{:>2} {:>10} {:>12} {:>11} {:>11}  {}\n", "", "tokens/s", "predicted s",
                     "measured s", "ratio", kKeysHeader);
}

std::string measured_text(std::size_t place, const TunedRun& run) {
  return fmt::format("{:>2} {:>10} {:>12.4f} {:>11.4f} {:>11.3f}  {}\n", place,
                     format_count(static_cast<std::int64_t>(run.tokens_per_s)), run.predicted_s,
                     run.step_s, run.predicted_s / run.step_s, keys_text(run.keys));
}

std::string chosen_text(const TuneModel& model, const TuneSpace& space, const TuneKeys& chosen) {
  return timing_remark(chosen, space.timing) + numbers_remark(model.given, chosen) +
         "chosen:" + keys_as_sets(model, chosen.put_into(model.given)) + "\n";
}

}  // namespace strata
