// Tests what a step does when its data are not as usual: numbers that are not finite, no valid
// targets, norms above the clip; and how many steps are in flight.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <iterator>
#include <limits>
#include <thread>
#include <vector>

#include "strata/base/convert.h"
#include "support/catch.h"
#include "support/thread_ranks.h"
#include "support/tiny_run.h"

namespace strata::test {
namespace {

std::vector<std::vector<double>> all_masters(TinyEngine& engine) {
  std::vector<std::vector<double>> masters;
  for (const BlockId b : engine.state().ids()) masters.push_back(engine.state().master(b));
  return masters;
}

/// Of one rank: in f64, element by element in runs of 4096, run by run in blocks.
double squares_of_gradients(const TrainingState& state) {
  double all = 0;
  for (const BlockId b : state.ids()) {
    const std::vector<double> values = load_as_double(state.block(b).grad);
    double of_block = 0;
    for (std::size_t begin = 0; begin < values.size(); begin += 4096) {
      double of_run = 0;
      for (std::size_t i = begin; i < std::min(begin + 4096, values.size()); ++i) {
        of_run += values[i] * values[i];
      }
      of_block += of_run;
    }
    all += of_block;
  }
  return all;
}

/// Fills rows of 7 tokens with one id and this target. Returns how many targets are valid.
std::int64_t fill_rows(const PassBuffers& out, std::int32_t target) {
  for (std::size_t i = 0; i < out.ids.size(); ++i) {
    out.ids[i] = 0;
    out.targets[i] = target;
    out.positions[i] = static_cast<std::int32_t>(i % 7);
    out.order[i] = static_cast<std::int32_t>(i % 7);
  }
  for (std::size_t s = 0; s < out.segments.size() / 5; ++s) {
    const std::int32_t row[] = {0, 0, 7, 7, 0};
    std::copy(row, row + 5, out.segments.begin() + static_cast<std::ptrdiff_t>(5 * s));
  }
  return target == kIgnoreTarget ? 0 : std::ssize(out.ids);
}

}  // namespace

TEST_CASE("a step whose loss is not finite changes no weight and is reported") {
  RunConfig config = tiny_config();
  config.optimizer.timing = GENERATE(UpdateTiming::kBeforeUse, UpdateTiming::kSpeculative);
  config.optimizer.interleave = GENERATE(0.0, 1.0);
  const auto self = make_self_ranks();
  TinyEngine engine(config, *self);
  engine.submit(0, 1e-2);
  engine.synchronize();
  (void)engine.take_outcomes();
  double& weight = engine.state().block(BlockId(1)).weight.as<double>()[0];
  const double kept = weight;
  weight = std::numeric_limits<double>::quiet_NaN();
  const auto before = all_masters(engine);
  const std::vector<double> m = [&] {
    const double* values = engine.state().block(BlockId(2)).m.as<double>();
    return std::vector<double>(values, values + engine.state().block(BlockId(2)).m.elements());
  }();
  engine.submit(1, 1e-2);
  engine.synchronize();
  const std::vector<StepOutcome> finished = engine.take_outcomes();
  REQUIRE(finished.size() == 1);
  CHECK(!finished[0].applied);
  CHECK(finished[0].missed == (config.optimizer.timing == UpdateTiming::kSpeculative));
  CHECK(std::isnan(finished[0].loss.value()));
  const auto after = all_masters(engine);
  for (std::size_t b = 0; b < before.size(); ++b) {
    for (std::size_t i = 0; i < before[b].size(); ++i) {
      if (b == 1 && i == 0) continue;
      REQUIRE(after[b][i] == before[b][i]);
    }
  }
  for (std::size_t i = 0; i < m.size(); ++i) {
    REQUIRE(engine.state().block(BlockId(2)).m.as<double>()[i] == m[i]);
  }
  weight = kept;
  engine.submit(2, 1e-2);
  engine.synchronize();
  CHECK(engine.take_outcomes().at(0).applied);
}

TEST_CASE("steps that stay not finite end the run with a numerical error") {
  RunConfig config = tiny_config();
  config.run.max_nonfinite_steps = 2;
  const auto self = make_self_ranks();
  TinyEngine engine(config, *self);
  engine.state().block(BlockId(1)).weight.as<double>()[0] = std::numeric_limits<double>::infinity();
  engine.submit(0, 1e-2);
  engine.synchronize();
  engine.submit(1, 1e-2);
  CHECK_THROWS_AS(engine.synchronize(), NumericalError);
}

TEST_CASE("a run that stops at bad steps ends at the first one") {
  RunConfig config = tiny_config();
  config.run.on_nonfinite = OnBadStep::kStop;
  const auto self = make_self_ranks();
  TinyEngine engine(config, *self);
  engine.state().block(BlockId(1)).weight.as<double>()[0] = std::numeric_limits<double>::infinity();
  engine.submit(0, 1e-2);
  CHECK_THROWS_AS(engine.synchronize(), NumericalError);
}

TEST_CASE("an outlier changes no weight where it is skipped, and does not count as usual") {
  RunConfig config = tiny_config();
  config.optimizer.timing = GENERATE(UpdateTiming::kBeforeUse, UpdateTiming::kSpeculative);
  config.run.outliers.grad_norm = 5;
  const auto self = make_self_ranks();
  TinyEngine engine(config, *self);
  const auto step = [&](std::int64_t number) {
    engine.submit(number, 0);
    engine.synchronize();
    return engine.take_outcomes().at(0);
  };
  StepOutcome outcome;
  for (std::int64_t s = 0; s < kStepsBeforeOutliers; ++s) outcome = step(s);
  REQUIRE(outcome.bad == "");
  const StepHistory before = outcome.history;
  CHECK(before.statistics.loss.count == kStepsBeforeOutliers);
  const auto masters = all_masters(engine);
  const TensorView head =
      engine.state().block(BlockId(static_cast<int>(masters.size()) - 1)).weight;
  double* const weight = head.as<double>();
  const std::vector<double> kept(weight, weight + head.elements());
  for (std::int64_t i = 0; i < head.elements(); ++i) weight[i] *= 50;
  const auto scaled = all_masters(engine);
  engine.submit(kStepsBeforeOutliers, 1e-2);
  engine.synchronize();
  outcome = engine.take_outcomes().at(0);
  CHECK_THAT(outcome.bad, ContainsSubstring("standard deviations"));
  CHECK(!outcome.applied);
  CHECK(outcome.history.bad_in_a_row == 1);
  CHECK(outcome.history.updates == before.updates);
  CHECK(outcome.history.statistics == before.statistics);
  CHECK(all_masters(engine) == scaled);
  std::copy(kept.begin(), kept.end(), weight);
  CHECK(all_masters(engine) == masters);
  outcome = step(kStepsBeforeOutliers + 1);
  CHECK(outcome.applied);
  CHECK(outcome.history.bad_in_a_row == 0);
}

TEST_CASE("a run that goes back is told of a bad step and not ended, wherever state lives") {
  RunConfig config = tiny_config();
  config.run.on_nonfinite = OnBadStep::kRollback;
  config.checkpoint.every_steps = 1;
  config.optimizer.timing =
      GENERATE(UpdateTiming::kBeforeUse, UpdateTiming::kSpeculative, UpdateTiming::kOnArrival);
  if (config.optimizer.timing == UpdateTiming::kOnArrival) config.optimizer.grad_clip = {};
  const int place = GENERATE(0, 1, 2);
  if (place == 1) config.optimizer.interleave = 1.0;
  if (place == 2) config.schedule.resident_units = 4;
  const int ranks = GENERATE(1, 2);
  INFO(static_cast<int>(config.optimizer.timing) << " place " << place << " ranks " << ranks);
  std::vector<std::vector<StepOutcome>> outcomes(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Ranks& group) {
    std::vector<StepOutcome>& seen = outcomes[static_cast<std::size_t>(group.rank())];
    TinyEngine engine(config, group);
    engine.submit(0, 1e-2);
    engine.synchronize();
    seen.push_back(engine.take_outcomes().at(0));
    // On one rank alone: the others learn of it.
    if (group.rank() == 0) {
      const TensorView weight = engine.state().block(BlockId(1)).weight;
      std::fill_n(weight.as<double>(), weight.elements(), std::numeric_limits<double>::quiet_NaN());
    }
    for (const std::int64_t step : {1, 2}) {
      engine.submit(step, 1e-2);
      engine.synchronize();
      seen.push_back(engine.take_outcomes().at(0));
    }
  });
  for (const std::vector<StepOutcome>& seen : outcomes) {
    REQUIRE(seen.size() == 3);
    CHECK(seen[0].bad == "");
    for (const std::size_t step : {1U, 2U}) {
      CHECK_THAT(seen[step].bad, ContainsSubstring("loss is"));
      CHECK(seen[step].history.bad_in_a_row == static_cast<std::int64_t>(step));
    }
  }
}

TEST_CASE("on arrival a loss that is not finite stops the run before any update") {
  RunConfig config = tiny_config();
  config.optimizer.grad_clip = std::nullopt;
  config.optimizer.timing = UpdateTiming::kOnArrival;
  const auto self = make_self_ranks();
  TinyEngine engine(config, *self);
  engine.state().block(BlockId(1)).weight.as<double>()[0] =
      std::numeric_limits<double>::quiet_NaN();
  const auto before = all_masters(engine);
  engine.submit(0, 1e-2);
  CHECK_THROWS_WITH(engine.synchronize(), ContainsSubstring("step 1:"));
  const auto after = all_masters(engine);
  for (std::size_t b = 0; b < before.size(); ++b) {
    if (b != 1) CHECK(after[b] == before[b]);
  }
}

TEST_CASE("a weight that is not finite after its update stops the run with the step named") {
  for (const UpdateTiming timing : {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival}) {
    for (const double interleave : {0.0, 1.0}) {
      for (const int steps : {1, 2}) {
        INFO(std::string(enum_name(kUpdateTimingNames, timing))
             << ", interleaved " << interleave << ", steps " << steps);
        RunConfig config = tiny_config();
        config.run.dtype = DType::kF32;
        config.optimizer.timing = timing;
        config.optimizer.interleave = interleave;
        config.optimizer.deferred_units = 5;  // all, in forward
        if (timing == UpdateTiming::kOnArrival) config.optimizer.grad_clip = std::nullopt;
        const auto self = make_self_ranks();
        TinyEngine engine(config, *self);
        engine.state().block(BlockId(2)).m.as<float>()[0] = std::numeric_limits<float>::infinity();
        const auto train = [&] {
          for (int step = 0; step < steps; ++step) engine.submit(step, 1e-2);
          engine.synchronize();
        };
        CHECK_THROWS_WITH(train(), ContainsSubstring("step 1: a weight of"));
      }
    }
  }
}

TEST_CASE("a step without valid targets has no gradient and no update") {
  RunConfig config = tiny_config();
  config.optimizer.timing = GENERATE(UpdateTiming::kBeforeUse, UpdateTiming::kSpeculative);
  const auto self = make_self_ranks();
  TinyHooks hooks;
  hooks.fill = [](std::int64_t, int, const BatchOptions&, const PassBuffers& out) {
    return fill_rows(out, kIgnoreTarget);
  };
  TinyEngine engine(config, *self, hooks);
  const auto before = all_masters(engine);
  engine.submit(0, 1e-2);
  engine.synchronize();
  const StepOutcome finished = engine.take_outcomes().at(0);
  CHECK(!finished.applied);
  CHECK(!finished.loss.has_value());
  CHECK(finished.grad_norm == 0.0);
  CHECK(all_masters(engine) == before);
}

TEST_CASE("the norm reported is that of the gradient that was applied, bit for bit", "[numbers]") {
  for (const std::int64_t passes : {1, 2}) {  // taken by the device, and by the host
    for (const auto& [dtype, gradient] : {std::pair{DType::kF64, DType::kF32},
                                          {DType::kBF16, DType::kF32},
                                          {DType::kBF16, DType::kBF16}}) {
      for (const UpdateTiming timing : {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival}) {
        for (const int ranks : {1, 2}) {
          INFO("passes " << passes << ", " << std::string(name_of(dtype)) << ", ranks " << ranks);
          RunConfig config = tiny_config();
          config.run.dtype = dtype;
          config.run.steps = 2;
          config.model.llama.vocab_size = 1000;  // norms of several blocks
          config.schedule.passes = passes;
          config.optimizer.gradient_dtype = gradient;
          config.optimizer.timing = timing;
          config.optimizer.grad_clip = std::nullopt;
          std::array<double, 2> squares{};
          double norm = 0;
          run_ranks(ranks, [&](Ranks& group) {
            TinyEngine engine(config, group);
            const RunResult result = run_steps(engine);
            const auto rank = static_cast<std::size_t>(group.rank());
            squares[rank] = squares_of_gradients(engine.state());
            if (rank == 0) norm = result.norms.back();
          });
          CHECK(norm > 0);
          CHECK(norm == std::sqrt(squares[0] + squares[1]));
        }
      }
    }
  }
}

TEST_CASE("clipping scales the whole gradient to the norm asked for") {
  // With beta1 = beta2 = 0 and a large eps an update is lr * gradient / eps: linear, so halving the
  // clip halves the update.
  RunConfig config = tiny_config();
  config.run.steps = 1;
  config.optimizer.betas = {0.0, 0.0};
  config.optimizer.eps = 1e6;
  config.optimizer.lr = 1e3;
  config.optimizer.weight_decay = 0.0;
  config.optimizer.grad_clip = 0.2;
  const RunResult whole = run_tiny(config);
  REQUIRE(whole.norms[0] > 0.2);
  config.optimizer.grad_clip = 0.1;
  const RunResult half = run_tiny(config);
  config.run.steps = 0;
  const RunResult initial = run_tiny(config);
  double squares = 0;
  for (const auto& [name, start] : initial.weights) {
    for (std::size_t i = 0; i < start.size(); ++i) {
      const double a = whole.weights.at(name)[i] - start[i];
      const double b = half.weights.at(name)[i] - start[i];
      squares += a * a;
      REQUIRE(std::abs(a - 2 * b) < 1e-6 * std::abs(a) + 1e-13);
    }
  }
  // ||update|| = lr / eps * clip.
  CHECK(std::abs(std::sqrt(squares) / (1e-3 * 0.2) - 1.0) < 1e-5);
}

TEST_CASE("a step is filled when at most one step before it has not ended") {
  RunConfig config = tiny_config();
  config.debug.execution = Execution::kThreads;
  const auto self = make_self_ranks();
  // No step ends before the host lane is let go. Who fills the third one too early finds that it
  // was not; the pause gives it the time to, and is no part of what must be true.
  std::promise<void> go;
  std::promise<void> filled;
  std::atomic<bool> gone{false};
  bool in_time = false;
  TinyHooks hooks;
  hooks.fill = [&](std::int64_t step, int, const BatchOptions&, const PassBuffers& out) {
    if (step == 2) {
      in_time = gone;
      filled.set_value();
    }
    return fill_rows(out, 0);
  };
  TinyEngine engine(config, *self, hooks);
  engine.device().stream(Lane::kHost).host_task("hold", {}, {}, [held = go.get_future().share()] {
    held.wait();
  });
  engine.submit_steps(0, 2);
  std::thread lets_go([&, early = filled.get_future()] {
    early.wait_for(std::chrono::milliseconds(100));
    gone = true;
    go.set_value();
  });
  engine.submit_steps(2, 3);
  lets_go.join();
  CHECK(in_time);
  engine.synchronize();
  CHECK(engine.take_outcomes().size() == 3);
}

TEST_CASE("norm weights are not decayed unless asked for") {
  RunConfig config = tiny_config();
  config.run.steps = 1;
  config.optimizer.lr = 1e-3;
  config.optimizer.weight_decay = 100.0;
  const RunResult kept = run_tiny(config);
  config.optimizer.decay_norms = true;
  const RunResult decayed = run_tiny(config);
  CHECK(std::abs(kept.weights.at("model.norm.weight")[0] - 1.0) < 2e-3);
  CHECK(std::abs(decayed.weights.at("model.norm.weight")[0] - 0.9) < 2e-3);
  CHECK(kept.weights.at("model.embed_tokens.weight") ==
        decayed.weights.at("model.embed_tokens.weight"));
}

}  // namespace strata::test
