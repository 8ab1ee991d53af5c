// What the files of a run folder tell of a run: its steps and what happened between them. `strata
// report` reads run folders into histories and makes a page or figures of them. Files may be
// damaged or still growing, since the run may be under way or dead; what could not be read is said
// in the notes and costs nothing else.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/report/trace_events.h"

namespace strata {

/// What the steps of a run measured, an entry of each vector for each step. A number that the run
/// did not know, or that was not finite, is NaN.
struct StepSeries {
  std::vector<std::int64_t> step{};  ///< steps done, ascending
  std::vector<double> loss{};
  std::vector<double> grad_norm{};
  std::vector<double> lr{};
  std::vector<double> tokens_per_s{};
  std::vector<double> targets_per_s{};
  std::vector<double> mfu{};            ///< in [0, 1]
  std::vector<double> mfu_attended{};   ///< without the part of attention that masks leave out
  std::vector<double> reward_margin{};  ///< of pairs of answers: chosen less rejected, mean
  std::vector<double> preferred{};      ///< share of the pairs, in [0, 1]
  std::vector<double> tokens{};         ///< of the step
  std::vector<double> seconds{};        ///< of the step

  [[nodiscard]] std::size_t size() const { return step.size(); }
};

/// A step that was not applied, because it was bad or no target counted.
struct SkippedStep {
  std::int64_t step = 0;
  std::string what{};  ///< is wrong with it, as far as its line tells
};

struct ValidatedStep {
  std::int64_t step = 0;
  double loss = 0;  ///< NaN if it was not finite
};

struct SavedState {
  std::int64_t step = 0;
  bool weights_alone = false;
  bool saved = false;
  double seconds = 0;
  double bytes = 0;
  std::string failure{};
};

struct GoneBack {
  std::int64_t step = 0;  ///< the bad step
  std::string what{};
};

/// A point at which the run went on, from the state after `step`.
struct Resumed {
  std::int64_t step = 0;
  std::string checkpoint{};
};

struct LaneTime {
  std::string lane{};
  double busy_s = 0;  ///< a step
  double exposed_s = 0;
};

/// Where the time of two traced steps went.
struct LaneTimes {
  std::int64_t step = 0;  ///< the first of them
  std::vector<LaneTime> lanes{};
  LaneTime updates{.lane = "updates"};
};

/// Bytes of rank 0. What is measured is known when a run has ended.
struct RunMemory {
  std::optional<double> device_planned{};
  std::optional<double> device_measured{};
  std::optional<double> host_planned{};
  std::optional<double> host_peak{};
};

/// Of a linear, the operand and the layer in which rounding to e4m3 made the largest share of
/// numbers zero.
struct Fp8Worst {
  std::string linear{};
  std::string operand{};
  std::int64_t layer = 0;
  double flushed = 0;    ///< share that became zero
  double subnormal = 0;  ///< share with few significant bits
  double amax = 0;       ///< the largest magnitude of the operand
};
/// What rounding lost in a step.
struct Fp8Step {
  std::int64_t step = 0;
  std::vector<Fp8Worst> linears{};
};

struct DrawnSample {
  std::int64_t step = 0;
  std::string prompt{};
  std::string text{};
  std::string finish_reason{};
};

struct ConfigValue {
  std::string path{};   ///< such as "optimizer.lr"
  std::string value{};  ///< as JSON text
};

struct RunHistory {
  std::filesystem::path folder{};
  std::string name{};  ///< tells it from the other runs of a report
  /// What `start` and `resume` tell, by key: version, commit, device, backend and so on. Numbers
  /// are JSON text.
  std::map<std::string, std::string> facts{};
  StepSeries steps{};
  std::vector<SkippedStep> skipped{};
  std::vector<ValidatedStep> validations{};
  std::vector<SavedState> saves{};
  std::vector<GoneBack> rollbacks{};
  std::vector<Resumed> resumes{};
  std::vector<LaneTimes> traced{};
  std::vector<Fp8Step> fp8{};
  RunMemory memory{};
  std::string end_reason{};  ///< "done", a signal or "error"; empty: no end was written
  std::vector<DrawnSample> samples{};
  std::vector<ConfigValue> config{};
  std::optional<TraceEvents> trace{};
  std::vector<std::string> notes{};  ///< what could not be read, and what was lost
};

/// Reads the folder of a run. Steps, validations, saves and samples that were done again after the
/// run had gone back replace earlier ones. Throws IoError if the folder holds no run.
[[nodiscard]] RunHistory read_run(const std::filesystem::path& folder);

/// Gives each run the shortest end of its path that no other run has, and numbers those whose paths
/// are the same.
void name_runs(std::vector<RunHistory>& runs);

/// A key whose values differ between runs, with the value in each; empty where a run lacks it.
struct ConfigDifference {
  std::string path{};
  std::vector<std::string> values{};
};
/// Returns the keys in which the configs of the runs differ, but for run.output, in the order of
/// the first run that has them. A run whose config could not be read takes no part in it.
[[nodiscard]] std::vector<ConfigDifference> config_differences(const std::vector<RunHistory>& runs);

}  // namespace strata
