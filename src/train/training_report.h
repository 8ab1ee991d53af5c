// What a training run says of itself to people and scripts: the log's lines, the progress and the
// metrics file. Rank 0 has one.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/predict/utilisation.h"
#include "strata/runfiles/event_file.h"
#include "strata/runfiles/metrics.h"
#include "strata/runfiles/run_folder.h"
#include "strata/train/progress.h"
#include "strata/train/rollback.h"
#include "strata/train/session.h"
#include "strata/train/step_report.h"
#include "train/fp8_watch.h"

namespace strata {

/// Why a run has ended: for the metrics, and for people.
struct Ending {
  std::string reason = "done";
  std::string text = "done";
};

class TrainingReport {
 public:
  /// Begins the metrics, or goes on with them where the run goes on. What is referred to must
  /// outlive the report. Throws IoError if the metrics file can't be opened.
  TrainingReport(Session& session, const RunFolder& folder, const CheckpointPlace& place,
                 int ranks);

  /// Reports a step that took so long.
  void step(const FinishedStep& finished, double step_s);
  /// Reports what rounding to e4m3 has lost in a step, and warns of what is much.
  void fp8(const Fp8StepCounts& counted);
  /// Reports a validation behind `done` steps.
  void validation(std::int64_t done, double loss, double seconds);
  /// Reports the samples taken behind `done` steps.
  void samples(std::int64_t done, const std::vector<RunSample>& samples);
  /// Reports what came of a save; `steps_waited` are those of saves that fell due during another.
  void save(const SaveReport& report, std::int64_t steps_waited);
  /// Writes the trace of `step` (counted from 0) and the next one, and where their time went. A
  /// disk that is full costs the trace file and not the run.
  void trace(std::int64_t step, const Recorder& recorder, const std::vector<LaneReport>& lanes,
             const Recorder::WorkTime& updates);
  /// Reports that the run goes back from a step.
  void rollback(const BadStep& bad);
  /// Ends the metrics of a run that an error ends, which is told elsewhere.
  void error();
  /// Says what came out and where it is.
  void end(const Ending& ending, const MemoryReport& memory);

 private:
  void begin();
  void begin_events();
  [[nodiscard]] StepMetrics metrics_of(const FinishedStep& finished, double step_s) const;
  [[nodiscard]] std::vector<Metric> counted(const FinishedStep& finished,
                                            const StepMetrics& m) const;
  [[nodiscard]] std::vector<Metric> extras_of(const FinishedStep& finished) const;
  void show_progress(std::int64_t done);
  [[nodiscard]] std::vector<Metric> end_metrics(std::string reason) const;
  [[nodiscard]] std::string result(const Ending& ending) const;

  Session& session_;
  const RunConfig& config_;  ///< resolved
  const RunFolder& folder_;
  const CheckpointPlace& place_;
  int ranks_;
  double flops_per_token_;
  DevicePeak peak_;
  Progress progress_;
  MetricsLog metrics_;
  std::optional<EventFile> events_;  ///< absent: the run writes none
  std::optional<LineFile> samples_;  ///< absent: the run takes none
  double begun_s_;                   ///< when the first step was
  bool peak_warned_ = false;
  Fp8Watch fp8_watch_;
  int lines_ = 0;                          ///< of progress, that were shown
  std::optional<double> validation_loss_;  ///< the last one
  std::int64_t missed_ = 0;                ///< steps whose early updates were undone
};

}  // namespace strata
