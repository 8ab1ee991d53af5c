// Tests how steps are judged: what is applied, what ends the run, and what counts in the history of
// the steps that follow.

#include "strata/optimizer/step_judge.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "support/catch.h"

namespace strata::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

OptimizerOptions on_arrival(OnBadStep on_bad_step) {
  OptimizerOptions options;
  options.timing = UpdateTiming::kOnArrival;
  options.on_bad_step = on_bad_step;
  return options;
}

/// Judges a step of two tokens with this loss sum and a gradient of norm 1.
StepOutcome judge_loss(StepJudge& judge, std::int64_t step, double loss) {
  judge.begin({.step = step, .lr = 0.5, .valid_tokens = 2});
  judge.add_loss({.loss = loss});
  return judge.decide({.squared_norm = 1, .losses = judge.loss_sums()});
}

}  // namespace

TEST_CASE("the outcome has the mean loss of the step's tokens and the root of the squares") {
  StepJudge judge({});
  judge.begin({.step = 6, .lr = 0.5, .valid_tokens = 4});
  judge.add_loss({.loss = 7});
  judge.add_loss({.loss = 3});
  CHECK(judge.loss_sums().loss == 10);
  // The sums of two ranks that have the same losses.
  const StepOutcome outcome = judge.decide({.squared_norm = 9, .losses = {.loss = 20}});
  CHECK(outcome.step == 6);
  CHECK(outcome.lr == 0.5);
  CHECK(outcome.loss == 5.0);
  CHECK(outcome.grad_norm == 3);
  CHECK(outcome.applied);
  CHECK(outcome.bad.empty());
  judge.begin({.step = 7, .lr = 0.5, .valid_tokens = 4});
  CHECK(judge.loss_sums().loss == 0);
}

TEST_CASE("a step without valid tokens has no loss, is not applied and is not bad") {
  StepJudge judge({});
  judge.begin({.step = 0, .lr = 0.5, .valid_tokens = 0});
  CHECK(!judge.expects_update());
  const StepOutcome outcome = judge.decide({.squared_norm = 0, .losses = {.loss = 0}});
  CHECK(!outcome.loss.has_value());
  CHECK(!outcome.applied);
  CHECK(outcome.bad.empty());
  CHECK(judge.history() == StepHistory{});
}

TEST_CASE("the clip factor brings larger gradients to the limit and leaves others alone") {
  OptimizerOptions options;
  CHECK(StepJudge(options).clip_factor(1e30) == 1);
  options.grad_clip = 2;
  const StepJudge judge(options);
  CHECK(judge.clip_factor(8) == 0.25);
  CHECK(judge.clip_factor(2) == 1);
  CHECK(judge.clip_factor(0) == 1);
}

TEST_CASE("a bad step is skipped and is left out of the statistics") {
  StepJudge judge({});
  CHECK(judge_loss(judge, 0, 6).applied);
  const StepStatistics before = judge.history().statistics;
  CHECK(before.loss.mean == 3);
  CHECK(before.grad_norm.mean == 1);
  const StepOutcome bad = judge_loss(judge, 1, kNan);
  CHECK(!bad.applied);
  CHECK_THAT(bad.bad, ContainsSubstring("loss is nan"));
  CHECK(judge.history().bad_in_a_row == 1);
  CHECK(judge.history().statistics == before);
  CHECK(judge_loss(judge, 2, 6).applied);
  CHECK(judge.history().bad_in_a_row == 0);
  CHECK(judge.history().statistics.loss.count == 2);
}

TEST_CASE("bad steps in a row end the run after as many as the options allow") {
  struct Case {
    OnBadStep on_bad_step;
    std::int64_t before;  ///< bad steps in the history that the run goes on from
    int last;             ///< bad step at which the run ends, or 0
  };
  for (const Case& c : {Case{OnBadStep::kStop, 0, 1}, Case{OnBadStep::kSkip, 0, 4},
                        Case{OnBadStep::kSkip, 3, 1}, Case{OnBadStep::kRollback, 0, 0}}) {
    OptimizerOptions options;
    options.on_bad_step = c.on_bad_step;
    options.max_bad_steps = 4;
    StepJudge judge(options);
    judge.resume({.updates = 9, .bad_in_a_row = c.before, .statistics = {}});
    int ended = 0;
    for (int step = 1; step <= 6 && ended == 0; ++step) {
      static_cast<void>(judge_loss(judge, step, kInfinity));
      try {
        judge.stop_if_stuck();
      } catch (const NumericalError&) {
        ended = step;
      }
    }
    CHECK(ended == c.last);
  }
}

TEST_CASE("on arrival a loss that is not finite ends the run before its updates") {
  StepJudge judge(on_arrival(OnBadStep::kStop));
  judge.begin({.step = 6, .lr = 0.5, .valid_tokens = 2});
  judge.add_loss({.loss = 1});
  CHECK_THROWS_WITH(judge.add_loss({.loss = kNan}),
                    ContainsSubstring("step 7: the loss is not finite") &&
                        ContainsSubstring("no weight was changed"));
}

TEST_CASE("on arrival a gradient that is not finite ends the run by the block's name") {
  StepJudge judge(on_arrival(OnBadStep::kStop));
  judge.begin({.step = 6, .lr = 0.5, .valid_tokens = 2});
  const std::string name = "layers.3";
  judge.require_finite({.block = name, .squared_norm = 1e300});
  CHECK_THROWS_WITH(judge.require_finite({.block = name, .squared_norm = kInfinity}),
                    ContainsSubstring("step 7: the gradient of layers.3 is not finite; its weights "
                                      "were not changed"));
  CHECK_THROWS_WITH(
      judge.require_finite({.block = name, .squared_norm = kNan, .held = false}),
      ContainsSubstring("layers.3 is not finite (") && !ContainsSubstring("were not changed"));
}

TEST_CASE("on arrival an outlier was applied before anybody knew") {
  OptimizerOptions options = on_arrival(OnBadStep::kStop);
  options.outliers.loss = 5;
  StepJudge judge(options);
  for (std::int64_t step = 0; step < kStepsBeforeOutliers; ++step) {
    CHECK(judge_loss(judge, step, step % 2 == 0 ? 5.9 : 6.1).bad.empty());
  }
  const StepOutcome outlier = judge_loss(judge, kStepsBeforeOutliers, 60);
  CHECK(!outlier.bad.empty());
  CHECK(outlier.applied);
  CHECK_THROWS_WITH(judge.stop_if_stuck(), ContainsSubstring("weights were changed by it"));
}

TEST_CASE("a run that goes back says nothing of its bad step and applies no further update") {
  const std::string name = "layers.3";
  for (const bool by_loss : {true, false}) {
    StepJudge judge(on_arrival(OnBadStep::kRollback));
    judge.begin({.step = 0, .lr = 0.5, .valid_tokens = 2});
    CHECK(judge.expects_update());
    judge.add_loss({.loss = by_loss ? kNan : 1});
    judge.require_finite({.block = name, .squared_norm = by_loss ? 1 : kInfinity});
    CHECK(judge.given_up());
    CHECK(!judge.expects_update());
    const StepOutcome outcome =
        judge.decide({.squared_norm = by_loss ? 1 : kInfinity, .losses = judge.loss_sums()});
    CHECK(!outcome.bad.empty());
    CHECK(!outcome.applied);
    judge.stop_if_stuck();
    judge.begin({.step = 1, .lr = 0.5, .valid_tokens = 2});
    CHECK(!judge.expects_update());
  }
}

}  // namespace strata::test
