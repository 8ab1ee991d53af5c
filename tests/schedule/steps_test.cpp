// What a step does when its data are not as usual.

#include <cmath>
#include <limits>

#include "support/catch.h"
#include "support/tiny_run.h"

namespace strata::test {
namespace {

std::vector<std::vector<double>> all_masters(Session& session) {
  std::vector<std::vector<double>> masters;
  for (int b = 0; b < session.state().blocks(); ++b) masters.push_back(session.state().master(b));
  return masters;
}

}  // namespace

TEST_CASE("a step whose loss is not finite changes no weight and is reported") {
  RunConfig config = tiny_config();
  const auto self = make_self_communicator();
  Session session(config, *self);
  session.submit(0, 1e-2);
  session.synchronize();
  (void)session.take_finished();
  double& weight = session.state().block(1).weight.as<double>()[0];
  const double kept = weight;
  weight = std::numeric_limits<double>::quiet_NaN();
  const auto before = all_masters(session);
  const std::vector<double> m = [&] {
    const double* values = session.state().block(2).m.as<double>();
    return std::vector<double>(values, values + session.state().block(2).m.elements());
  }();
  session.submit(1, 1e-2);
  session.synchronize();
  const std::vector<FinishedStep> finished = session.take_finished();
  REQUIRE(finished.size() == 1);
  CHECK(!finished[0].outcome.applied);
  CHECK(std::isnan(finished[0].outcome.loss));
  const auto after = all_masters(session);
  for (std::size_t b = 0; b < before.size(); ++b) {
    for (std::size_t i = 0; i < before[b].size(); ++i) {
      if (b == 1 && i == 0) continue;
      REQUIRE(after[b][i] == before[b][i]);
    }
  }
  for (std::size_t i = 0; i < m.size(); ++i) {
    REQUIRE(session.state().block(2).m.as<double>()[i] == m[i]);
  }
  weight = kept;
  session.submit(2, 1e-2);
  session.synchronize();
  CHECK(session.take_finished().at(0).outcome.applied);
}

TEST_CASE("steps that stay not finite end the run with a numerical error") {
  RunConfig config = tiny_config();
  config.run.max_nonfinite_steps = 2;
  const auto self = make_self_communicator();
  Session session(config, *self);
  session.state().block(1).weight.as<double>()[0] = std::numeric_limits<double>::infinity();
  session.submit(0, 1e-2);
  session.synchronize();
  session.submit(1, 1e-2);
  CHECK_THROWS_AS(session.synchronize(), NumericalError);
}

TEST_CASE("on arrival a loss that is not finite stops the run before any update") {
  RunConfig config = tiny_config();
  config.optimizer.grad_clip = std::nullopt;
  config.optimizer.timing = UpdateTiming::kOnArrival;
  const auto self = make_self_communicator();
  Session session(config, *self);
  session.state().block(1).weight.as<double>()[0] = std::numeric_limits<double>::quiet_NaN();
  const auto before = all_masters(session);
  session.submit(0, 1e-2);
  CHECK_THROWS_WITH(session.synchronize(), ContainsSubstring("step 0"));
  const auto after = all_masters(session);
  for (std::size_t b = 0; b < before.size(); ++b) {
    if (b != 1) CHECK(after[b] == before[b]);
  }
}

TEST_CASE("a step without valid targets has no gradient and no update") {
  RunConfig config = tiny_config();
  const auto self = make_self_communicator();
  SessionHooks hooks;
  hooks.fill = [](std::int64_t, int, const BatchOptions&, const PassBuffers& out) {
    for (std::size_t i = 0; i < out.ids.size(); ++i) {
      out.ids[i] = 0;
      out.targets[i] = kIgnoreTarget;
      out.positions[i] = static_cast<std::int32_t>(i % 7);
      out.order[i] = static_cast<std::int32_t>(i % 7);
    }
    for (std::size_t s = 0; s < out.segments.size() / 5; ++s) {
      const std::int32_t row[] = {0, 0, 7, 7, 0};
      std::copy(row, row + 5, out.segments.begin() + static_cast<std::ptrdiff_t>(5 * s));
    }
    return std::int64_t{0};
  };
  Session session(config, *self, hooks);
  const auto before = all_masters(session);
  session.submit(0, 1e-2);
  session.synchronize();
  const FinishedStep finished = session.take_finished().at(0);
  CHECK(!finished.outcome.applied);
  CHECK(finished.outcome.loss == 0.0);
  CHECK(finished.outcome.grad_norm == 0.0);
  CHECK(all_masters(session) == before);
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
