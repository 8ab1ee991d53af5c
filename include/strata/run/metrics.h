// A run says what its steps were like in two ways: in the metrics file for plots and scripts, and
// in the progress line for people. `train` writes both on rank 0. Each object is used by one thread
// at a time; writing errors are IoError.

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

/// This is what is known of a step, over all ranks, when it has ended.
struct StepMetrics {
  std::int64_t step = 0;  ///< number of steps done, this one included: the first is 1
  double loss = 0;        ///< mean over the step's valid tokens
  double grad_norm = 0;   ///< before clipping
  double lr = 0;
  std::int64_t tokens = 0;      ///< of this step
  double step_s = 0;            ///< of this step
  std::optional<double> mfu{};  ///< in [0, 1]

  /// Returns the tokens of all ranks per second, or 0 if the step took no time.
  [[nodiscard]] double tokens_per_s() const {
    return step_s > 0 ? static_cast<double>(tokens) / step_s : 0.0;
  }
};

/// A metric is a key of a metrics line with its value. std::monostate is written as null; the key
/// must outlive the call.
struct Metric {
  std::string_view key;
  std::variant<std::monostate, bool, std::int64_t, double, std::string> value;
};

/// Writes the metrics file of a run: one JSON object a line, which is in the file as soon as the
/// call returns. JSON has no NaN and no infinity: such a number is written as null, and the line
/// gets "nonfinite": {key: "nan" | "inf" | "-inf"}.
class MetricsLog {
 public:
  /// Creates the file, or empties it. Throws IoError, as every later call does.
  explicit MetricsLog(const std::filesystem::path& file);

  /// Writes {"event":"start","version","commit", ...}: the program, then whatever describes the
  /// run, such as parameters, device, ranks and planned bytes.
  void start(std::span<const Metric> metrics);
  /// Writes {"event":"step","step","loss","grad_norm","lr","tokens","step_s","tokens_per_s","mfu",
  /// ...}, where `extras` follow.
  void step(const StepMetrics& metrics, std::span<const Metric> extras = {});
  /// Writes {"event":"eval","step","val_loss"}; `step` is the number of steps done.
  void eval(std::int64_t step, double val_loss);
  /// Writes {"event":"trace", ...}, which says where the time of the traced steps went.
  void trace(std::span<const Metric> metrics);
  /// Writes {"event":"end", ...} with the figures of the whole run.
  void end(std::span<const Metric> metrics);

 private:
  void write(std::string_view event, std::initializer_list<std::span<const Metric>> parts);

  std::filesystem::path file_;
  std::ofstream out_;
};

/// Formats a run's progress and estimates when it is over. It writes nothing.
class Progress {
 public:
  /// `steps` is the number of steps of the run.
  explicit Progress(std::int64_t steps) : steps_(steps) {}

  /// Counts a step. Every step must be added, also those whose line is not shown.
  void add(const StepMetrics& metrics);
  /// Returns the seconds until the last step is done: remaining steps times the mean step time. The
  /// first step (cold caches, first touch) counts in the mean only while it is the only one.
  [[nodiscard]] double eta_s() const;
  /// Returns "step 12/100 loss 3.412 norm 1.20 lr 3.0e-04 12,345 tok/s mfu 41.2% eta 3m12s" for the
  /// step that was added last, without mfu if that is unknown.
  [[nodiscard]] std::string line() const;

 private:
  std::int64_t steps_ = 0;
  StepMetrics last_;
  std::int64_t counted_ = 0;
  double first_s_ = 0;
  double later_s_ = 0;
};

}  // namespace strata
