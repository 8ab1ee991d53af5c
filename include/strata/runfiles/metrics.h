// What a run says of its steps to plots and scripts: the metrics file, which `train` writes on rank
// 0. It is used by one thread at a time. People read the progress line (strata/train/progress.h).

#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "strata/model/fp8_counts.h"
#include "strata/runfiles/line_file.h"

namespace strata {

/// This is what is known of a step, over all ranks, when it has ended.
struct StepMetrics {
  std::int64_t step = 0;         ///< number of steps done, this one included: the first is 1
  std::optional<double> loss{};  ///< mean over the step's valid tokens; absent: it has none
  double grad_norm = 0;          ///< before clipping
  double lr = 0;
  std::int64_t tokens = 0;      ///< of this step
  double step_s = 0;            ///< of this step
  std::optional<double> mfu{};  ///< in [0, 1]
  std::int64_t targets = 0;     ///< of this step, those that count
  /// In [0, 1]: MFU without the part of attention that document masks leave out.
  std::optional<double> attended_mfu{};
  double reward_margin = 0;  ///< of pairs of answers: mean reward of chosen less that of rejected
  double preferred = 0;      ///< of pairs: share whose chosen answer has the larger reward

  /// Returns the tokens of all ranks per second, or 0 if the step took no time.
  [[nodiscard]] double tokens_per_s() const {
    return step_s > 0 ? static_cast<double>(tokens) / step_s : 0.0;
  }
  /// Returns the targets of all ranks per second, or 0 if the step took no time.
  [[nodiscard]] double targets_per_s() const {
    return step_s > 0 ? static_cast<double>(targets) / step_s : 0.0;
  }
};

/// Numbers by name, which are written as an object.
using MetricGroup = std::vector<std::pair<std::string, double>>;

/// A metric is a key of a metrics line with its value. std::monostate is written as null; the key
/// must outlive the call.
struct Metric {
  std::string_view key;
  std::variant<std::monostate, bool, std::int64_t, double, std::string, MetricGroup> value;
};

/// Writes the metrics file of a run: one JSON object a line, which is in the file as soon as the
/// call returns. JSON has no NaN and no infinity: such a number is written as null, and the line
/// gets "nonfinite": {key: "nan" | "inf" | "-inf"}.
class MetricsLog {
 public:
  using OldLines = LineFile::OldLines;
  /// Opens the file as LineFile does.
  explicit MetricsLog(const std::filesystem::path& file, OldLines old = OldLines::kRemove)
      : file_(file, old) {}

  /// Writes {"event":"start","version","commit", ...}: the program, then whatever describes the
  /// run, such as parameters, device, ranks and planned bytes.
  void start(std::span<const Metric> metrics);
  /// Writes {"event":"resume", ...} in place of it where a run goes on: the lines below it count
  /// from the step that it names, whatever stands above it.
  void resume(std::span<const Metric> metrics);
  /// Writes {"event":"rollback", ...}: from which bad step the run goes back to where.
  void rollback(std::span<const Metric> metrics);
  /// Writes {"event":"checkpoint", ...}, what came of a save.
  void checkpoint(std::span<const Metric> metrics);
  /// Writes {"event":"step","step","loss","grad_norm","lr","tokens","step_s","tokens_per_s","mfu",
  /// ...}, where `extras` follow.
  void step(const StepMetrics& metrics, std::span<const Metric> extras = {});
  /// Writes {"event":"eval","step","val_loss"}; `step` is the number of steps done.
  void eval(std::int64_t step, double val_loss);
  /// Writes {"event":"fp8","step",LINEAR:{OPERAND:{"amax","flushed","subnormal"}}}, where each is
  /// a list with a number for each layer, or null for one that was not rounded. Numbers have four
  /// digits.
  void fp8(const Fp8StepCounts& counted);
  /// Writes {"event":"trace", ...}, which says where the time of the traced steps went.
  void trace(std::span<const Metric> metrics);
  /// Writes {"event":"end", ..., "lost_lines"} with the figures of the whole run.
  void end(std::span<const Metric> metrics);
  /// Returns how many lines could not be written.
  [[nodiscard]] std::int64_t lost_lines() const { return file_.lost_lines(); }

 private:
  void begin(std::string_view event, std::span<const Metric> metrics);
  void write(std::string_view event, std::initializer_list<std::span<const Metric>> parts);

  LineFile file_;
};

/// Returns how many steps a run had done when it wrote its last line about one, by the end of its
/// metrics file; nothing if there is no such file, or its end tells of no step.
[[nodiscard]] std::optional<std::int64_t> last_step_in(const std::filesystem::path& file);

}  // namespace strata
