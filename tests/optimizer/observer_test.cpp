// What an observer of updates is promised, on steps of every placement and timing: told before and
// after each update, block by block, and between the two nobody changes a block's state.

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "strata/optimizer/updater.h"
#include "support/catch.h"
#include "support/tiny_engine.h"

namespace strata::test {
namespace {

using Bytes = std::vector<std::byte>;
using Copies = std::vector<Bytes>;

/// Copies the state of a block on the lanes of its updates: just before the first work that may
/// change it, and right after `done`.
class Copier final : public UpdateObserver {
 public:
  /// Has places for the copies of `steps` steps: lanes write them while others are submitted.
  Copier(TinyEngine& engine, std::int64_t steps)
      : state_(engine.state()),
        device_(engine.device()),
        before_(state_.blocks(), Copies(static_cast<std::size_t>(steps))),
        after_(before_),
        begun_(state_.blocks()),
        ended_(state_.blocks()) {}

  void before_update(BlockId block, Stream& lane) override {
    REQUIRE(begun_[block] == ended_[block]);
    copy_on(lane, block, before_[block].at(begun_[block]++));
  }
  void after_update(BlockId block, Event done) override {
    REQUIRE(begun_[block] == ended_[block] + 1);
    // The copy is made on another lane, and the next update is held until it is there.
    Stream& comm = device_.stream(Lane::kComm);
    comm.wait(done, WaitFor::kUpdated);
    copy_on(comm, block, after_[block].at(ended_[block]++));
    copied_ = comm.record();
  }

  [[nodiscard]] std::size_t updates(BlockId block) const { return ended_[block]; }
  [[nodiscard]] const PerBlock<Copies>& before() const { return before_; }
  [[nodiscard]] const PerBlock<Copies>& after() const { return after_; }
  [[nodiscard]] Bytes now(BlockId block) const {
    Bytes bytes;
    append(block, bytes);
    return bytes;
  }

 private:
  void append(BlockId block, Bytes& bytes) const {
    const BlockState& s = state_.block(block);
    for (const auto tensor : kUpdatedTensors) {
      const TensorView& view = s.*tensor;
      if (!view) continue;
      const auto* data = static_cast<const std::byte*>(view.data);
      bytes.insert(bytes.end(), data, data + view.bytes().bytes);
    }
  }
  void copy_on(Stream& lane, BlockId block, Bytes& copy) {
    if (copied_.ticket > 0 && lane.lane() != Lane::kComm) lane.wait(copied_, WaitFor::kReuse);
    lane.host_task("copy_state", {}, {}, [this, block, &copy] { append(block, copy); });
  }

  const TrainingState& state_;
  Device& device_;
  PerBlock<Copies> before_, after_;
  PerBlock<std::size_t> begun_, ended_;  ///< updates, counted by the submitting thread
  Event copied_;
};

struct Case {
  std::string name;
  UpdateTiming timing;
  std::int64_t resident;
  double interleave;
  OptimizerKind kind = OptimizerKind::kAdamW;
};

const Case kCases[] = {{"host, before use", UpdateTiming::kBeforeUse, 0, 0},
                       {"host, on arrival", UpdateTiming::kOnArrival, 0, 0},
                       {"host, speculative", UpdateTiming::kSpeculative, 0, 0},
                       {"resident and host, before use", UpdateTiming::kBeforeUse, 2, 0},
                       {"resident and host, on arrival", UpdateTiming::kOnArrival, 2, 0},
                       {"interleaved, before use", UpdateTiming::kBeforeUse, 0, 1},
                       {"interleaved, on arrival", UpdateTiming::kOnArrival, 0, 0.5},
                       {"all three, speculative", UpdateTiming::kSpeculative, 2, 0.5},
                       {"muon", UpdateTiming::kBeforeUse, 0, 0, OptimizerKind::kMuon}};

RunConfig config_of(const Case& c) {
  RunConfig config = tiny_config();
  config.run.dtype = DType::kBF16;
  config.optimizer.gradient_dtype = DType::kBF16;
  config.optimizer.kind = c.kind;
  config.optimizer.timing = c.timing;
  if (c.timing == UpdateTiming::kOnArrival) config.optimizer.grad_clip = std::nullopt;
  config.optimizer.deferred_units = 1;
  config.optimizer.interleave = c.interleave;
  config.schedule.resident_units = c.resident;
  config.schedule.sub_batches = 2;
  config.model.llama.num_hidden_layers = 4;
  return config;
}

/// Losses, norms and weights after all steps.
std::vector<double> numbers_of(TinyEngine& engine) {
  engine.synchronize();
  std::vector<double> numbers;
  for (const StepOutcome& o : engine.take_outcomes()) {
    numbers.insert(numbers.end(), {o.loss.value(), o.grad_norm});
  }
  for (const BlockId b : engine.state().ids()) {
    const std::vector<double> weights = engine.state().master(b);
    numbers.insert(numbers.end(), weights.begin(), weights.end());
  }
  return numbers;
}

}  // namespace

TEST_CASE("between an update and the next nobody changes a block's state") {
  for (const Case& c : kCases) {
    INFO(c.name);
    const RunConfig config = config_of(c);
    const auto self = make_self_ranks();
    TinyEngine engine(config, *self);
    Copier copier(engine, config.run.steps);
    engine.observe(copier);
    engine.submit_steps(0, config.run.steps);
    engine.synchronize();
    const auto steps = static_cast<std::size_t>(config.run.steps);
    for (const BlockId b : copier.after().ids()) {
      INFO("block " << b.value());
      const Copies& before = copier.before()[b];
      const Copies& after = copier.after()[b];
      REQUIRE(copier.updates(b) == steps);
      for (std::size_t i = 0; i + 1 < steps; ++i) CHECK(before[i + 1] == after[i]);
      for (std::size_t i = 0; i < steps; ++i) CHECK(before[i] != after[i]);
      CHECK(copier.now(b) == after.back());
    }
  }
}

TEST_CASE("an observer that comes between steps is told of later steps alone") {
  for (const Case& c : kCases) {
    INFO(c.name);
    const RunConfig config = config_of(c);
    const auto self = make_self_ranks();
    TinyEngine engine(config, *self);
    engine.submit_steps(0, 1);
    Copier copier(engine, config.run.steps);
    engine.observe(copier);
    engine.submit_steps(1, config.run.steps);
    engine.synchronize();
    for (const BlockId b : copier.after().ids()) {
      CHECK(copier.updates(b) + 1 == static_cast<std::size_t>(config.run.steps));
    }
  }
}

TEST_CASE("an observer changes nothing of what steps compute") {
  for (const Case& c : kCases) {
    INFO(c.name);
    const RunConfig config = config_of(c);
    const auto self = make_self_ranks();
    TinyEngine plain(config, *self);
    plain.submit_steps(0, config.run.steps);
    TinyEngine engine(config, *self);
    Copier copier(engine, config.run.steps);
    engine.observe(copier);
    engine.submit_steps(0, config.run.steps);
    const std::vector<double> numbers = numbers_of(engine);
    REQUIRE(numbers.size() > static_cast<std::size_t>(2 * config.run.steps));
    CHECK(numbers == numbers_of(plain));
  }
}

}  // namespace strata::test
