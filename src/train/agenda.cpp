// Users count steps from 1, so "after step n" and "when n steps are done" are the same.

#include "strata/train/agenda.h"

namespace strata {

bool validation_due(const RunSection& run, std::int64_t done) {
  return run.eval_every > 0 && done % run.eval_every == 0 && done < run.steps;
}

std::int64_t validations_of(const RunSection& run) {
  return 1 + (run.eval_every > 0 ? (run.steps - 1) / run.eval_every : 0);
}

bool samples_due(const RunSection& run, std::int64_t done) {
  return run.sample_every > 0 && done % run.sample_every == 0;
}

std::optional<std::int64_t> first_traced(const RunSection& run) {
  if (!run.trace_step) return std::nullopt;
  std::int64_t between = *run.trace_step;  // the first step is free where nothing is due after each
  while (between > 1 && (validation_due(run, between) || samples_due(run, between))) --between;
  return between - 1;
}

}  // namespace strata
