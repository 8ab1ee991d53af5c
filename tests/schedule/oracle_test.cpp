// The trace of whole training steps: no races, promised overlap, the same submissions everywhere.

#include <algorithm>
#include <string>

#include "strata/base/bytes.h"
#include "support/catch.h"
#include "support/thread_communicator.h"
#include "support/tiny_run.h"

namespace strata::test {
namespace {

/// A config in which every store recycles its slots.
RunConfig tight_config() {
  RunConfig config = tiny_config();
  config.schedule.sub_batches = 3;
  config.schedule.passes = 2;
  config.schedule.activation_slots = 4;
  config.schedule.weight_slots = 2;
  config.schedule.gradient_slots = 2;
  config.model.llama.num_hidden_layers = 4;
  config.model.llama.tie_word_embeddings = true;
  return config;
}

struct Traced {
  Recorder recorder;
  std::int64_t waits_in_step = 0;
  std::int64_t allocations_in_steps = 0;
};

/// Records `steps` steps from the first on.
void trace_run(Traced& traced, const RunConfig& config, std::optional<WaitFor> omit = {},
               int ranks = 1) {
  run_ranks(ranks, [&](Communicator& communicator) {
    const bool watched = communicator.rank() == 0;
    Session session(config, communicator,
                    {.trace = watched ? &traced.recorder : nullptr, .omit_wait = omit});
    const std::int64_t allocations = session.device().allocations();
    if (watched) traced.recorder.start();
    for (std::int64_t step = 0; step < config.run.steps; ++step) {
      session.submit(step, config.optimizer.lr);
    }
    if (watched) {
      traced.recorder.stop();
      traced.allocations_in_steps = session.device().allocations() - allocations;
    }
    session.synchronize();
  });
}

std::string first_race(const Recorder& recorder) {
  const std::vector<Race> races = recorder.races(1);
  return races.empty() ? "" : races.front().text;
}

}  // namespace

TEST_CASE("training steps have no race in any mode") {
  for (const UpdateTiming timing : {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival}) {
    for (const Direction direction : {Direction::kFixed, Direction::kAlternating}) {
      for (const std::int64_t layers_per_visit : {1, 2}) {
        for (const DType dtype : {DType::kF64, DType::kBF16}) {
          for (const int ranks : {1, 2}) {
            RunConfig config = tight_config();
            config.run.dtype = dtype;
            config.optimizer.gradient_dtype = dtype == DType::kBF16 ? DType::kBF16 : DType::kF32;
            config.optimizer.timing = timing;
            if (timing == UpdateTiming::kOnArrival) config.optimizer.grad_clip = std::nullopt;
            config.schedule.direction = direction;
            config.schedule.layers_per_visit = layers_per_visit;
            Traced traced;
            trace_run(traced, config, {}, ranks);
            CHECK(traced.recorder.records().size() > 100);
            CHECK(first_race(traced.recorder) == "");
          }
        }
      }
    }
  }
}

TEST_CASE("training steps have no race while cells keep more or less") {
  for (const Direction direction : {Direction::kFixed, Direction::kAlternating}) {
    for (const std::int64_t layers_per_visit : {1, 2}) {
      RunConfig config = tight_config();
      config.schedule.direction = direction;
      config.schedule.layers_per_visit = layers_per_visit;
      config.debug.poison_slots = true;
      config.schedule.activations = KeepLevel::kAttentionOut;
      const std::size_t bytes = make_setup(config, 0, 1, {}).device_bytes();
      config.schedule.activations = std::nullopt;
      config.memory.device_limit = ByteSize{bytes + 4 * kKiB};
      Traced traced;
      trace_run(traced, config);
      CHECK(!traced.recorder.find("matmul", {.phase = "backward"}).empty());
      CHECK(first_race(traced.recorder) == "");
    }
  }
}

TEST_CASE("backward runs again what forward did not keep and nothing else") {
  struct Case {
    KeepLevel level;
    std::size_t products, attentions;  ///< forward ones, of a cell in backward
  };
  constexpr std::size_t kGradients = 8;  // of four matrices: input and weight
  for (const Case& c : {Case{KeepLevel::kRecompute, 3, 1}, Case{KeepLevel::kAttention, 3, 0},
                        Case{KeepLevel::kAttentionOut, 2, 0}, Case{KeepLevel::kSelective, 1, 0},
                        Case{KeepLevel::kFull, 0, 0}}) {
    INFO(std::string(name_of(c.level)));
    RunConfig config = tight_config();
    config.run.steps = 1;
    config.schedule.passes = 1;
    config.schedule.activations = c.level;
    Traced traced;
    trace_run(traced, config);
    for (int unit = 1; unit <= 4; ++unit) {
      for (int cell = 0; cell < 3; ++cell) {
        const Tag tag{"backward", -1, unit, cell};
        CHECK(traced.recorder.find("matmul", tag).size() == kGradients + c.products);
        CHECK(traced.recorder.find("attention_forward", tag).size() == c.attentions);
        CHECK(traced.recorder.find("rmsnorm_forward", tag).size() == 2);
      }
    }
  }
}

TEST_CASE("steps of one pass, whose norms the device takes, have no race") {
  for (const UpdateTiming timing : {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const int ranks : {1, 2}) {
        RunConfig config = tight_config();
        config.run.dtype = dtype;
        config.optimizer.gradient_dtype = dtype;
        config.optimizer.timing = timing;
        config.optimizer.deferred_units = 0;
        config.schedule.passes = 1;
        if (timing == UpdateTiming::kOnArrival) config.optimizer.grad_clip = std::nullopt;
        Traced traced;
        trace_run(traced, config, {}, ranks);
        CHECK(first_race(traced.recorder) == "");
      }
    }
  }
}

TEST_CASE("training steps have no race while state lives on the device") {
  for (const UpdateTiming timing : {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival}) {
    for (const std::int64_t passes : {1, 2}) {
      for (const std::int64_t resident : {0, 1, 3, 6}) {
        for (const int ranks : {1, 2}) {
          RunConfig config = tight_config();
          config.run.dtype = DType::kBF16;
          config.optimizer.gradient_dtype = DType::kBF16;
          config.optimizer.timing = timing;
          if (timing == UpdateTiming::kOnArrival) config.optimizer.grad_clip = std::nullopt;
          config.schedule.passes = passes;
          config.schedule.resident_units = resident;
          config.schedule.gradient_sums = GradientSums::kDevice;
          Traced traced;
          trace_run(traced, config, {}, ranks);
          INFO("passes " << passes << ", resident " << resident << ", ranks " << ranks);
          CHECK(first_race(traced.recorder) == "");
          const std::vector<std::size_t> updates = traced.recorder.find(AdamW::kName);
          const auto on_device = std::ranges::count_if(updates, [&](std::size_t i) {
            return traced.recorder.records()[i].lane == Lane::kOut;
          });
          CHECK((on_device > 0) == (resident > 0));
          CHECK((on_device == std::ssize(updates)) == (resident == 6));
        }
      }
    }
  }
}

TEST_CASE("everything resident crosses the link with batches, losses and norms alone") {
  RunConfig config = tight_config();
  config.schedule.resident_units = 6;
  config.schedule.gradient_sums = GradientSums::kDevice;
  config.schedule.activation_slots = std::nullopt;
  const auto self = make_self_communicator();
  Session session(config, *self);
  session.submit(0, 1e-3);
  session.synchronize();
  CHECK(session.weights().loaded_bytes() == 0);
  std::size_t norms = 0;
  for (const Block& block : session.state().layout().blocks) {
    norms += static_cast<std::size_t>(SquaredNorm::partials(block.elements)) * sizeof(double);
  }
  CHECK(session.gradients().offloaded_bytes() == norms);
}

TEST_CASE("every kind of wait that is left out on purpose is found as a race") {
  for (int kind = 0; kind < kWaitForCount; ++kind) {
    const auto omitted = static_cast<WaitFor>(kind);
    RunConfig config = tight_config();
    config.debug.execution = Execution::kEager;  // the numbers stay right; only the order is wrong
    // Gradients of several passes are added by the host lane and wait there; those of one arrive.
    if (omitted == WaitFor::kArrived) config.schedule.passes = 1;
    if (omitted == WaitFor::kDecided) config.schedule.resident_units = 2;
    Traced traced;
    trace_run(traced, config, omitted, omitted == WaitFor::kGathered ? 2 : 1);
    INFO("left out: " << std::string(name_of(omitted)));
    CHECK(!traced.recorder.races(1).empty());
  }
}

TEST_CASE("loads, spills, offloads and updates may run during compute") {
  RunConfig config = tight_config();
  config.schedule.passes = 1;
  config.model.llama.tie_word_embeddings = false;
  config.run.steps = 2;
  Traced traced;
  trace_run(traced, config);
  const Recorder& r = traced.recorder;
  const auto overlaps = [&](const std::vector<std::size_t>& a, const std::vector<std::size_t>& b) {
    return std::any_of(a.begin(), a.end(), [&](std::size_t x) {
      return std::any_of(b.begin(), b.end(),
                         [&](std::size_t y) { return x != y && r.may_overlap(x, y); });
    });
  };
  const auto on_lane = [&](std::vector<std::size_t> found, Lane lane) {
    std::erase_if(found, [&](std::size_t i) { return r.records()[i].lane != lane; });
    return found;
  };
  const auto compute = [&](std::string_view phase, int unit, int cell) {
    return on_lane(r.find("matmul", {phase, -1, unit, cell}), Lane::kCompute);
  };
  // Weights of unit 3 during forward of unit 2.
  CHECK(overlaps(on_lane(r.find("copy", {"forward", -1, 3, -1}), Lane::kWeightsIn),
                 compute("forward", 2, -1)));
  // The spill of a cell during compute of the next cell of the same unit.
  CHECK(overlaps(on_lane(r.find("copy", {"forward", -1, 2, 0}), Lane::kOut),
                 compute("forward", 2, 1)));
  // A spilled activation on its way in during backward of the cell before.
  CHECK(overlaps(on_lane(r.find("copy", {"backward", -1, 2, -1}), Lane::kActivationsIn),
                 compute("backward", 2, -1)));
  // The gradient of unit 3 leaves during backward of unit 2.
  CHECK(overlaps(on_lane(r.find("copy", {"offload", -1, 3, -1}), Lane::kOut),
                 compute("backward", 2, -1)));
  // The update of block 4 during the next step's forward of unit 1.
  CHECK(overlaps(r.find("adamw", {"update", -1, 4, -1}), compute("forward", 1, -1)));
}

TEST_CASE("updates on arrival may run during backward") {
  RunConfig config = tight_config();
  config.schedule.passes = 1;
  config.model.llama.tie_word_embeddings = false;
  config.optimizer.grad_clip = std::nullopt;
  config.optimizer.timing = UpdateTiming::kOnArrival;
  config.optimizer.deferred_units = 2;
  config.run.steps = 1;
  Traced traced;
  trace_run(traced, config);
  const Recorder& r = traced.recorder;
  const std::vector<std::size_t> update = r.find("adamw", {"update", -1, 4, -1});
  const std::vector<std::size_t> backward = r.find("attention_backward", {"backward", -1, 1, -1});
  REQUIRE(!update.empty());
  REQUIRE(!backward.empty());
  CHECK(r.may_overlap(update.front(), backward.front()));
}

TEST_CASE("the host takes norms of those gradients only that it sums") {
  struct Case {
    std::int64_t passes;
    bool tied;
    DType gradient;
    int on_device;  ///< of six blocks
  };
  for (const Case& c : {Case{1, false, DType::kBF16, 6}, Case{1, false, DType::kF32, 6},
                        Case{1, true, DType::kBF16, 5}, Case{2, false, DType::kBF16, 0}}) {
    for (const int ranks : {1, 2}) {
      INFO("passes " << c.passes << ", tied " << c.tied << ", ranks " << ranks);
      RunConfig config = tight_config();
      config.run.dtype = DType::kBF16;
      config.run.steps = 1;
      config.schedule.passes = c.passes;
      config.model.llama.tie_word_embeddings = c.tied;
      config.optimizer.gradient_dtype = c.gradient;
      Traced traced;
      trace_run(traced, config, {}, ranks);
      int on_device = 0;
      int on_host = 0;
      for (const std::string_view name : {SquaredNorm::kName, CastSquaredNorm::kName}) {
        for (const std::size_t i : traced.recorder.find(name)) {
          ++(traced.recorder.records()[i].lane == Lane::kOut ? on_device : on_host);
        }
      }
      CHECK(on_device == c.on_device);
      CHECK(on_host == 6 - c.on_device);
    }
  }
}

TEST_CASE("every execution submits the same work") {
  RunConfig config = tight_config();
  Traced threads;
  trace_run(threads, config);
  for (const Execution execution : {Execution::kEager, Execution::kShuffled}) {
    config.debug.execution = execution;
    Traced other;
    trace_run(other, config);
    CHECK(other.recorder.canonical() == threads.recorder.canonical());
  }
}

TEST_CASE("a step allocates nothing and waits for nothing") {
  RunConfig config = tight_config();
  config.run.steps = 1;
  const auto self = make_self_communicator();
  Session session(config, *self);
  session.submit(0, 1e-3);
  session.synchronize();
  const std::int64_t allocations = session.device().allocations();
  const std::int64_t waits = session.device().wait_calls();
  session.submit(1, 1e-3);
  // The run-ahead limit, and one per batch buffer, before the step's first submission.
  CHECK(session.device().wait_calls() - waits <= 1 + config.schedule.passes);
  CHECK(session.device().allocations() == allocations);
  session.synchronize();
}

TEST_CASE("every planned byte is taken and no other") {
  for (const std::int64_t slots : {3, 100}) {
    for (const DType dtype : {DType::kF64, DType::kBF16}) {
      RunConfig config = tight_config();
      config.run.dtype = dtype;
      config.schedule.activation_slots = slots;
      config.schedule.passes = slots == 3 ? 2 : 1;  // norms on the host, and on the device
      config.schedule.resident_units = dtype == DType::kBF16 ? 3 : 0;
      // Room for some of what cells may keep.
      config.memory.device_limit =
          ByteSize{make_setup(config, 0, 1, {}).device_bytes() + 20 * kKiB};
      const auto self = make_self_communicator();
      Session session(config, *self);
      const MemoryPlan& plan = session.setup().plan;
      CHECK(session.setup().kept.count(KeepLevel::kRecompute) < 12);
      for (const Arena* arena : session.arenas()) {
        CHECK(arena->used() == plan.total(arena->space()));
        for (const LedgerEntry& taken : arena->ledger()) {
          const auto planned = std::find_if(
              plan.entries().begin(), plan.entries().end(), [&](const MemoryPlan::Entry& e) {
                return e.space == arena->space() && e.name == taken.name;
              });
          INFO(taken.name);
          CHECK(planned != plan.entries().end());
        }
      }
      CHECK(session.device().device_bytes_in_use() >= plan.total(Space::kDevice));
      CHECK(session.device().device_bytes_in_use() <= plan.total(Space::kDevice) + kMiB);
    }
  }
}

}  // namespace strata::test
