// The training of one rank from where a run begins or goes on: its steps, with validations,
// samples, a trace and saves in between, and the ways it may end. It stands between the run
// (training_run.h), which makes a trainer for each of its beginnings, and the session, which does
// the steps.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "strata/base/stop_signals.h"
#include "strata/base/work_meter.h"
#include "strata/device/trace.h"
#include "strata/launch/time_limit.h"
#include "strata/launch/watchdog.h"
#include "strata/runfiles/run_folder.h"
#include "strata/train/rollback.h"
#include "strata/train/session.h"

namespace strata {

class RunSaves;
class TrainingReport;
struct Ending;

/// EX_TEMPFAIL of sysexits.h: the run was ended, and its own folder has the last state to go on
/// from.
inline constexpr int kSavedExitCode = 75;

/// Runs the training of one rank. Steps are reported when they have finished, which is after later
/// ones were submitted. Steps are counted from 0 here, and from 1 where a person reads them.
class Trainer {
 public:
  /// Makes the session. `folder` is null but on rank 0. All arguments must outlive the trainer.
  /// Throws what Session does, and Interrupted.
  Trainer(const RunConfig& config, Ranks& ranks, StopSignals& signals, Watchdog& watchdog,
          const RunFolder* folder, const CheckpointPlace& place, const Rollbacks& rollbacks);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Returns the exit code; it says nothing if the run goes back.
  int run();
  /// Returns the step that the run goes back from, if it does, once run() has returned.
  [[nodiscard]] const std::optional<BadStep>& bad_step() const { return bad_; }

 private:
  [[nodiscard]] bool first() const { return ranks_.rank() == 0; }
  void start();
  void set_aside_what_is_left_behind() const;
  std::optional<Interrupted> train();
  void steps();
  void submit(std::int64_t step);
  void synchronize();
  void evaluate(std::int64_t done);
  void sample(std::int64_t done);
  void trace(std::int64_t step);
  [[nodiscard]] bool is_validated(std::int64_t done) const;
  [[nodiscard]] bool out_of_patience() const;
  void report_finished();

  void end_if_asked();
  void note_bad(const StepOutcome& outcome);
  void require_good_steps() const;

  void take_save_request();
  [[nodiscard]] bool save_file_is_there() const;
  void report_saves();
  [[nodiscard]] bool save_at_end();
  [[nodiscard]] int exit_code(bool saved, const std::optional<Interrupted>& interrupted) const;
  [[nodiscard]] Ending ending(const std::optional<Interrupted>& interrupted) const;
  void say_signal_waits();

  Ranks& ranks_;
  StopSignals& signals_;
  Watchdog& watchdog_;
  const RunFolder* folder_;
  CheckpointPlace place_;
  const Rollbacks& rollbacks_;
  Recorder recorder_;
  TimeLimit time_limit_;  // the session asks for it while it is made, and so for the next ones
  double longest_step_s_ = 0;
  std::unique_ptr<RunSaves> saves_;  ///< null while the session is made
  std::optional<BadStep> bad_;
  Session session_;
  const RunConfig& config_;                 ///< resolved
  std::unique_ptr<TrainingReport> report_;  ///< on rank 0, from start()
  bool signal_told_ = false;                ///< that it came, and what it does
  Validations validations_;                 ///< of all of the run, if it goes by them
  std::int64_t done_;                       ///< steps that were submitted, of all of the run
  double reference_s_ = 0;  ///< when stepping last began: at start, after a validation or a trace
  double last_finished_s_ = 0;
  WorkProgress begin_work_;
  std::optional<WorkMeter> first_step_;  ///< while none has finished
};

}  // namespace strata
