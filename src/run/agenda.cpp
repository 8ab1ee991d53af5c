// Users count steps from 1, so "after step n" and "when n steps are done" are the same.

#include "strata/run/agenda.h"

namespace strata {

bool validation_due(const RunSection& run, std::int64_t done) {
  return run.eval_every > 0 && done % run.eval_every == 0 && done < run.steps;
}

std::int64_t validations_of(const RunSection& run) {
  return 1 + (run.eval_every > 0 ? (run.steps - 1) / run.eval_every : 0);
}

std::optional<std::int64_t> first_traced(const RunSection& run) {
  if (!run.trace_step) return std::nullopt;
  return *run.trace_step - (validation_due(run, *run.trace_step) ? 2 : 1);
}

}  // namespace strata
