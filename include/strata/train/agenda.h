// What happens between the steps of a run, and after which: validations and the trace. All of it is
// a pure function of the config; `train` asks before and after each step.

#pragma once

#include <cstdint>
#include <optional>

#include "strata/config/config.h"

namespace strata {

/// Returns whether a validation is due when `done` steps are done: every run.eval_every steps, but
/// not after the last one, which has a validation of its own.
[[nodiscard]] bool validation_due(const RunSection& run, std::int64_t done);
/// Returns how many validations a run with a validation set has, the one at its end included.
[[nodiscard]] std::int64_t validations_of(const RunSection& run);

/// Returns whether samples are due when `done` steps are done: every run.sample_every steps.
[[nodiscard]] bool samples_due(const RunSection& run, std::int64_t done);

/// Returns the first of the two traced steps, counted from 0, if there is a trace: run.trace_step,
/// or the last step before it after which neither a validation nor samples are due. A trace never
/// moves these.
[[nodiscard]] std::optional<std::int64_t> first_traced(const RunSection& run);

}  // namespace strata
