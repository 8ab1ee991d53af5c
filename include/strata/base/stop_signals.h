// Signals that end a program, as something that a run asks for between its steps. A command that
// must not end in the middle of a step makes one StopSignals; whoever notices a signal throws
// Interrupted, which carries the exit code that shells expect.
#pragma once

#include <csignal>
#include <cstdint>
#include <memory>
#include <string>

#include "strata/base/error.h"

namespace strata {

/// Stands among signals for the end of the time that a run has; no signal has this number.
inline constexpr int kTimeOver = 128;
/// EX_IOERR of sysexits.h: what was to be kept of the work is not saved.
inline constexpr int kUnsavedExitCode = 74;
/// Returns "SIGINT" and so on for the signals that StopSignals catches, "the time limit", or
/// "signal N" for others.
[[nodiscard]] std::string signal_name(int signal);

/// The program was asked to end. The exit code is 128 and the signal's number, or kUnsavedExitCode
/// if the time is over, since no signal came then.
class Interrupted : public Error {
 public:
  explicit Interrupted(int signal) : Error("ended by " + signal_name(signal)), signal_(signal) {}
  [[nodiscard]] int exit_code() const noexcept override {
    return signal_ == kTimeOver ? kUnsavedExitCode : 128 + signal_;
  }
  [[nodiscard]] int signal() const noexcept { return signal_; }

 private:
  int signal_;
};

/// Catches SIGINT, SIGTERM, SIGUSR1 (which batch systems send before the time is over), SIGHUP (the
/// terminal is gone) and SIGXCPU (so is the processor time) while it lives, unless the process was
/// started with them ignored, as nohup does. The first signal is remembered. The same signal again
/// ends the process at once, as if nothing were caught; but not within a second, because launchers
/// and shells may send a signal to a process and to its group. Another one ends nothing: batch
/// systems send several kinds in turn, each to say that the time is short. Nor does SIGXCPU, which
/// the kernel repeats by itself. Writing to a closed pipe or past a limit of file sizes is an error
/// of the write meanwhile, and no signal. There is one at a time; it may be made and asked by any
/// thread.
class StopSignals {
 public:
  /// What signals do once it is gone: what they did before, or nothing (see outlast_stops); then
  /// nobody catches them again.
  enum class Afterwards { kAsBefore, kOutlast };
  /// Returns milliseconds of a clock that never goes back, and above 0. A signal's handler calls
  /// it.
  using ClockMs = std::int64_t (*)();
  /// The time since the machine was started.
  static std::int64_t steady_ms();

  explicit StopSignals(Afterwards afterwards = Afterwards::kAsBefore, ClockMs clock = steady_ms);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Returns the signal that came first, or 0 if none did.
  [[nodiscard]] int received() const;
  /// Returns whether SIGUSR2 has come since the last call: it asks for a checkpoint, and ends
  /// nothing.
  [[nodiscard]] bool take_save_request();

 private:
  struct Actions;
  std::unique_ptr<Actions> before_;
  Afterwards afterwards_;
};

/// Throws Interrupted if a signal has come to the StopSignals that lives, if one does: for work
/// that may take long on what strangers have written, and that is too deep down to be handed one.
void throw_if_stopped();

/// From now on no signal that is caught changes anything, but SIGINT: the process has its exit code
/// and is about to end. Launchers send SIGTERM to all ranks when the first has ended, and take the
/// worst of their exit codes for that of the job. A batch system's SIGUSR1 may reach a host only
/// when the run, told of it by another, is over. SIGINT still ends the process.
void outlast_stops();

}  // namespace strata
