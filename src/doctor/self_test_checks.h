// The checks that the self-test consists of, each with one purpose and a file of its own. All give
// findings; an error on the way is a finding too.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/doctor/self_test.h"

namespace strata {

/// Runs every operator with small awkward shapes in f32 and bf16 and compares it with its formula
/// in f64, and with itself: the same bits again, and nothing written beside the outputs. One
/// finding if all are right, else one for each operator that is not.
[[nodiscard]] std::vector<Finding> check_operators(const SelfTestOptions& options);

/// Trains the tiny model of the goldens with everything on the device and compares losses and norms
/// of five clipped steps with PyTorch's. One finding for each dtype.
[[nodiscard]] std::vector<Finding> check_golden(const SelfTestOptions& options);

/// Trains a tiny model with everything streamed through slots as small as they come, and with
/// everything resident, and compares losses, norms and weights bit by bit. Looks for races in the
/// streamed steps. One finding for the bits, one for the races.
[[nodiscard]] std::vector<Finding> check_residency(const SelfTestOptions& options);

/// Saves a run on the way, drops it later and goes on from what was saved, in this process.
[[nodiscard]] std::vector<Finding> check_resume(const SelfTestOptions& options);

/// Kills a run of the program with SIGKILL and has another process go on with it: the last
/// checkpoint must be that of a run that was not killed. No finding without a program.
[[nodiscard]] std::vector<Finding> check_kill(const SelfTestOptions& options);

/// Sums and gathers between ranks, on the host and on the device, compared with exact values. All
/// ranks call it.
[[nodiscard]] std::vector<Finding> check_collectives(const SelfTestOptions& options, Ranks& ranks);

/// Returns what to do if numbers are wrong on this backend; begins with `first`.
[[nodiscard]] std::string remedy_of_wrong_numbers(BackendKind backend, std::string_view first);

/// Returns what `check` returns or, if it throws, one bad finding of this name that says what.
[[nodiscard]] std::vector<Finding> guarded(std::string_view name, BackendKind backend,
                                           const std::function<std::vector<Finding>()>& check);

/// Returns the options of the backends that the checks make themselves.
[[nodiscard]] BackendOptions backend_options(const SelfTestOptions& options);

}  // namespace strata
