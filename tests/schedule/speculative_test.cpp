// Tests speculative updates against updates before use where steps are not as usual: every bit of
// the training state must be the same. modes_test.cpp has steps that are clipped or not.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/random.h"
#include "strata/engine/state_choices.h"
#include "strata/model/families.h"
#include "support/catch.h"
#include "support/thread_ranks.h"
#include "support/tiny_model.h"
#include "support/tiny_run.h"

namespace strata::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What arrives at an optimizer in a step.
struct FedStep {
  double scale = 1e-3;  ///< deviation of its gradients
  double loss = 1;
  std::int64_t valid_tokens = 1;
  int bad_block = -1;  ///< has this in its last element, on the last rank
  double bad_value = 0;
  double lr = 1e-2;
};

struct Fed {
  std::vector<StateBytes> states;  ///< after every step
  std::vector<StepOutcome> outcomes;
  std::int64_t updates = 0;
  std::string error;  ///< of the last step
};

struct OptimizerCase {
  DType compute = DType::kBF16;
  DType moment = DType::kF32;
  std::vector<int> speculated{};  ///< none: before use
};

/// One rank's optimizer alone, fed with gradients in the order of backward. The clip norm is 1.
Fed feed(const OptimizerCase& c, const std::vector<FedStep>& steps, Ranks& ranks) {
  const ModelLayout layout = make_layout(spec_of(tiny_model()));
  const StateChoices choices{.compute = c.compute,
                             .gradient = DType::kF32,
                             .moment = c.moment,
                             .passes = 2,  // norms are taken by the optimizer, not on the way
                             .rank = ranks.rank(),
                             .ranks = ranks.size()};
  BackendOptions machine;
  machine.threads = 2;
  const Backend backend = make_backend(BackendKind::kCpu, machine);
  Arena device(*backend.device, Space::kDevice, 16 * kMiB, "device");
  Arena pinned(*backend.device, Space::kPinned, 16 * kMiB, "pinned");
  Arena pageable(*backend.device, Space::kPageable, 16 * kMiB, "pageable");
  Arenas arenas(device, pinned, pageable);
  StatePlan plan = plan_state(layout, choices);
  for (const int b : c.speculated) plan.blocks[BlockId(b)].updated = UpdateTime::kSpeculated;
  TrainingState state(layout, plan, arenas);
  state.initialize(1, 0.1, *backend.pool);
  const std::unique_ptr<Collectives> collectives = make_collectives(ranks, *backend.device);
  WeightStore weights(state, *collectives, *backend.kernels, arenas, 1);
  OptimizerOptions options;
  options.grad_clip = 1.0;
  options.seed = 7;
  options.timing = c.speculated.empty() ? UpdateTiming::kBeforeUse : UpdateTiming::kSpeculative;
  Fed fed;
  Optimizer optimizer({state, weights, ranks, *collectives, *backend.kernels, *backend.kernels,
                       arenas, *backend.pool},
                      options,
                      [&](const StepOutcome& outcome) { fed.outcomes.push_back(outcome); });
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const FedStep& step = steps[i];
    optimizer.begin_step(
        {.step = static_cast<std::int64_t>(i), .lr = step.lr, .valid_tokens = step.valid_tokens},
        {});
    backend.device->stream(Lane::kHost).host_task("loss", {}, {}, [&optimizer, loss = step.loss] {
      optimizer.add_loss({.loss = loss});
    });
    for (int number = layout.blocks.last().value(); number >= 0; --number) {
      const BlockId b(number);
      const BlockState& s = state.block(b);
      for (std::int64_t e = 0; e < s.grad.elements(); ++e) {
        double value = step.scale * random_normal(i, static_cast<std::uint64_t>(b.value()),
                                                  static_cast<std::uint64_t>(s.begin + e));
        const bool last = ranks.rank() + 1 == ranks.size() && e + 1 == s.grad.elements();
        if (b.value() == step.bad_block && last) value = step.bad_value;
        if (s.grad.dtype == DType::kF64) {
          s.grad.as<double>()[e] = value;
        } else {
          s.grad.as<float>()[e] = static_cast<float>(value);
        }
      }
      Arrival arrival;
      arrival.block = b;
      arrival.gradient = s.grad;
      optimizer.arrived(std::move(arrival), {});
    }
    optimizer.finish_step({});
    try {
      backend.device->synchronize();
    } catch (const NumericalError& error) {
      fed.error = error.what();
    }
    fed.states.push_back(state_bytes(state));
    if (!fed.error.empty()) break;
  }
  fed.updates = optimizer.updates();
  return fed;
}

std::vector<bool> missed(const Fed& fed) {
  std::vector<bool> steps;
  for (const StepOutcome& outcome : fed.outcomes) steps.push_back(outcome.missed);
  return steps;
}

void check_same(const Fed& speculative, const Fed& reference) {
  REQUIRE(speculative.states.size() == reference.states.size());
  for (std::size_t i = 0; i < reference.states.size(); ++i) {
    INFO("step " << i);
    CHECK((speculative.states[i] == reference.states[i]));
  }
  REQUIRE(speculative.outcomes.size() == reference.outcomes.size());
  for (std::size_t i = 0; i < reference.outcomes.size(); ++i) {
    CHECK(speculative.outcomes[i].applied == reference.outcomes[i].applied);
  }
  CHECK(speculative.updates == reference.updates);
  CHECK(speculative.error == reference.error);
}

std::vector<Fed> feed_ranks(const OptimizerCase& c, const std::vector<FedStep>& steps, int ranks) {
  std::vector<Fed> fed(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Ranks& group) {
    fed[static_cast<std::size_t>(group.rank())] = feed(c, steps, group);
  });
  return fed;
}

constexpr double kLarge = 1.0;  // clips

}  // namespace

TEST_CASE("a step that was guessed wrong leaves what it leaves before use, bit for bit") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<FedStep> steps{
      {},
      {},
      {.scale = kLarge},
      {.bad_block = 0, .bad_value = kInfinity},  // the last to arrive
      {},
      {.valid_tokens = 0},
      {.loss = nan},
      {.bad_block = 4, .bad_value = nan},
      {.scale = kLarge},
      {},
  };
  const std::vector<bool> misses{false, false, true, true, false, false, true, true, true, false};
  for (const OptimizerCase& dtypes :
       {OptimizerCase{DType::kF64, DType::kF32}, OptimizerCase{DType::kBF16, DType::kF32},
        OptimizerCase{DType::kBF16, DType::kBF16}}) {
    for (const int ranks : {1, 2}) {
      INFO(std::string(name_of(dtypes.compute))
           << ", moments in " << std::string(name_of(dtypes.moment)) << ", " << ranks << " ranks");
      const auto fed = [&](const std::vector<int>& speculated) {
        return feed_ranks({dtypes.compute, dtypes.moment, speculated}, steps, ranks);
      };
      const std::vector<Fed> reference = fed({});
      const std::vector<Fed> some = fed({4, 2});
      const std::vector<Fed> all = fed({4, 3, 2, 1, 0});
      for (std::size_t rank = 0; rank < reference.size(); ++rank) {
        CHECK(reference[rank].updates == 6);
        CHECK((reference[rank].states[2] != reference[rank].states[1]));
        CHECK((reference[rank].states[3] == reference[rank].states[2]));
        check_same(some[rank], reference[rank]);
        check_same(all[rank], reference[rank]);
        CHECK(missed(all[rank]) == misses);
        CHECK(missed(some[rank]) == misses);
        CHECK(missed(reference[rank]) == std::vector<bool>(steps.size(), false));
      }
    }
  }
}

TEST_CASE("a run that ends because its steps stay not finite ends with the last good state") {
  const std::vector<FedStep> steps{{},
                                   {.bad_block = 0, .bad_value = kInfinity},
                                   {.bad_block = 1, .bad_value = kInfinity},
                                   {.bad_block = 2, .bad_value = kInfinity}};
  const Fed reference = feed_ranks({}, steps, 1).front();
  const Fed speculative = feed_ranks({.speculated = {4, 3, 2, 1, 0}}, steps, 1).front();
  CHECK_THAT(reference.error, ContainsSubstring("3 steps in a row"));
  CHECK((speculative.states.back() == speculative.states.front()));
  check_same(speculative, reference);
}

TEST_CASE("weights that are not finite after a speculative update end the run by name") {
  const std::vector<FedStep> steps{{}, {.lr = 3.3e38}, {.lr = 3.3e38}};
  const Fed reference = feed_ranks({}, steps, 1).front();
  const Fed speculative = feed_ranks({.speculated = {4, 3, 2, 1, 0}}, steps, 1).front();
  CHECK_THAT(reference.error, ContainsSubstring("is not finite after its update"));
  CHECK(speculative.error == reference.error);
}

}  // namespace strata::test
