// Tests after which steps a run validates and which it traces, against lists made by hand.

#include "strata/train/agenda.h"

#include <vector>

#include "support/catch.h"

namespace strata {
namespace {

RunSection run_of(std::int64_t steps, std::int64_t every) {
  RunSection run;
  run.steps = steps;
  run.eval_every = every;
  return run;
}

std::vector<std::int64_t> validations(const RunSection& run) {
  std::vector<std::int64_t> due;
  for (std::int64_t done = 1; done <= run.steps; ++done) {
    if (validation_due(run, done)) due.push_back(done);
  }
  return due;
}

}  // namespace

TEST_CASE("validations are due every so many steps, and the last step has its own") {
  CHECK(validations(run_of(8, 3)) == std::vector<std::int64_t>{3, 6});
  CHECK(validations(run_of(6, 3)) == std::vector<std::int64_t>{3});
  CHECK(validations(run_of(6, 0)).empty());
  for (const std::int64_t every : {0, 1, 3, 6, 7}) {
    const RunSection run = run_of(6, every);
    CHECK(validations_of(run) == static_cast<std::int64_t>(validations(run).size()) + 1);
  }
}

TEST_CASE("the two traced steps have no validation between them and are steps of the run") {
  for (std::int64_t every = 0; every <= 9; ++every) {
    if (every == 1) continue;  // refused: there is one between any two
    for (std::int64_t step = 1; step < 9; ++step) {
      RunSection run = run_of(9, every);
      run.trace_step = step;
      const std::int64_t first = first_traced(run).value() + 1;  // from 1, as users count
      CHECK(first >= 1);
      CHECK(first + 1 <= run.steps);
      CHECK((first == step || first + 1 == step));
      CHECK_FALSE(validation_due(run, first));
    }
  }
  CHECK_FALSE(first_traced(run_of(9, 3)).has_value());
}

TEST_CASE("samples are due every so many steps, and none are between the traced ones") {
  RunSection run = run_of(12, 2);
  CHECK_FALSE(samples_due(run, 6));
  run.sample_every = 3;
  CHECK_FALSE(samples_due(run, 4));
  CHECK(samples_due(run, 6));
  CHECK(samples_due(run, 12));  // the last step, too
  run.trace_step = 3;           // samples after 3, a validation after 2
  CHECK(first_traced(run) == 0);
  run.trace_step = 5;
  CHECK(first_traced(run) == 4);
  run.trace_step = 10;
  CHECK(first_traced(run) == 6);  // after 10 and 8 a validation, after 9 samples
}

}  // namespace strata
