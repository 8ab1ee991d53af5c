#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace strata {

/// What is known of a step when it is over, over all ranks.
struct StepMetrics {
  std::int64_t step = 0;  ///< steps that are done, this one included: the first is 1
  double loss = 0;        ///< mean over the step's valid tokens
  double grad_norm = 0;   ///< before clipping
  double lr = 0;
  std::int64_t tokens = 0;      ///< of this step
  double step_s = 0;            ///< of this step
  std::optional<double> mfu{};  ///< in [0, 1]

  [[nodiscard]] double tokens_per_s() const {
    return step_s > 0 ? static_cast<double>(tokens) / step_s : 0.0;
  }
};

/// A key of a metrics line with its value; monostate is null.
struct Metric {
  std::string_view key;
  std::variant<std::monostate, bool, std::int64_t, double, std::string> value;
};

/// The metrics file of a run, for plots and scripts: one JSON object a line, in the file as soon as
/// the call returns. JSON has no NaN and no infinity: such a number is written as null, and the
/// line gets "nonfinite": {key: "nan" | "inf" | "-inf"}. One thread at a time.
class MetricsLog {
 public:
  /// Creates the file, or empties it. Throws IoError, as every later call does.
  explicit MetricsLog(const std::filesystem::path& file);

  /// {"event":"start", ...}: model, parameters, device, ranks, plan, whatever describes the run.
  void start(std::span<const Metric> metrics);
  /// {"event":"step","step","loss","grad_norm","lr","tokens","step_s","tokens_per_s","mfu", ...}
  void step(const StepMetrics& metrics, std::span<const Metric> extras = {});
  /// {"event":"eval","step","val_loss"}
  void eval(std::int64_t step, double val_loss);
  /// {"event":"trace", ...}: where the time of the traced steps went.
  void trace(std::span<const Metric> metrics);
  /// {"event":"end", ...}
  void end(std::span<const Metric> metrics);

 private:
  void write(std::string_view event, std::initializer_list<std::span<const Metric>> parts);

  std::filesystem::path file_;
  std::ofstream out_;
};

/// Formats a run's progress and estimates when it is over.
class Progress {
 public:
  explicit Progress(std::int64_t steps) : steps_(steps) {}

  /// Counts a step. Every step must be added, also those whose line is not shown.
  void add(const StepMetrics& metrics);
  /// Seconds until the last step is done: remaining steps times the mean step time, in which the
  /// first step (cold caches, first touch) counts only while it is the only one.
  [[nodiscard]] double eta_s() const;
  /// "step 12/100 loss 3.412 norm 1.20 lr 3.0e-04 12,345 tok/s mfu 41.2% eta 3m12s" for the step
  /// that was added last; without mfu if it is unknown.
  [[nodiscard]] std::string line() const;

 private:
  std::int64_t steps_ = 0;
  StepMetrics last_;
  std::int64_t counted_ = 0;
  double first_s_ = 0;
  double later_s_ = 0;
};

}  // namespace strata
