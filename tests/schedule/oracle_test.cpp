// Tests the trace of whole training steps: the overlap that is promised, work that is not done
// twice, and the same submissions in every execution. modes_test.cpp finds no race in any mode;
// here waits are left out on purpose, and the races between the work that they order are found.

#include <algorithm>
#include <functional>
#include <string>

#include "modes.h"
#include "support/catch.h"
#include "support/thread_ranks.h"
#include "support/tiny_run.h"

namespace strata::test {
namespace {

/// A step of two passes, of a tied model, in which every store recycles its slots.
RunConfig tight_config() {
  RunConfig config = recycling_config();
  config.schedule.passes = 2;
  config.model.llama.num_hidden_layers = 4;
  config.model.llama.tie_word_embeddings = true;
  return config;
}

/// The same with a ring of gradients that has a slot for each of two layers that are deferred, and
/// two for the others.
RunConfig ring_config() {
  RunConfig config = tight_config();
  config.schedule.passes = 1;
  config.optimizer.grad_clip = std::nullopt;
  config.optimizer.timing = UpdateTiming::kOnArrival;
  config.optimizer.deferred_units = 2;
  config.optimizer.gradient_ring = 4;
  config.model.llama.num_hidden_layers = 7;
  return config;
}

/// tight_config() with most of what cells keep on its way to the host and back through few slots.
RunConfig spilling_config() {
  RunConfig config = tight_config();
  config.schedule.activations = KeepLevel::kAttention;
  config.schedule.spill = KeepLevel::kFull;
  config.schedule.spill_slots = 2;
  return config;
}

/// True for the copy of what a cell of spilling_config spills, either way: by its size.
bool moves_cell(const Recorder& r, std::size_t record) {
  static const std::size_t bytes =
      spilled_bytes(make_setup(spilling_config(), 0, 1, {}).kept_tensors(), KeepLevel::kAttention,
                    KeepLevel::kFull);
  const Submission& what = r.records()[record].what;
  return what.kind == SubmissionKind::kCopy && what.accesses.writes.front().bytes == bytes;
}

}  // namespace

TEST_CASE("waits that protect spilled cells and boundaries in int8 are found when left out",
          "[one_thread]") {
  for (const WaitFor omitted : {WaitFor::kFilled, WaitFor::kReuse}) {
    for (const BoundaryForm form : {BoundaryForm::kExact, BoundaryForm::kInt8}) {
      RunConfig config = spilling_config();
      config.schedule.spill_dtype = form;
      config.debug.execution = Execution::kEager;
      Recorder r;
      trace_run(r, config, 1, omitted);
      const std::vector<Race> races = r.races(100'000);
      const auto any_of = [&](const std::function<bool(std::size_t)>& kind) {
        return std::any_of(races.begin(), races.end(),
                           [&](const Race& race) { return kind(race.first) || kind(race.second); });
      };
      INFO("left out: " << std::string(name_of(omitted)));
      CHECK(any_of([&](std::size_t i) { return moves_cell(r, i); }));
      if (form == BoundaryForm::kExact) continue;
      const std::string_view converter =
          omitted == WaitFor::kReuse ? QuantizeRows::kName : DequantizeRows::kName;
      CHECK(any_of([&](std::size_t i) { return r.records()[i].what.name == converter; }));
    }
  }
}

TEST_CASE(
    "cells leave while later ones run forward and come back while earlier ones run backward") {
  for (const std::int64_t slots : {2, 3}) {
    INFO(slots << " slots");
    RunConfig config = spilling_config();
    config.schedule.passes = 1;
    config.run.steps = 1;
    config.schedule.spill_slots = slots;
    Recorder r;
    trace_run(r, config);
    const auto moved = [&](Lane lane, const Tag& tag) {
      std::vector<std::size_t> found = r.find("copy", tag);
      std::erase_if(
          found, [&](std::size_t i) { return r.records()[i].lane != lane || !moves_cell(r, i); });
      return found;
    };
    const auto compute = [&](std::string_view phase, int unit, int cell) {
      return r.find("matmul", {phase, -1, unit, cell});
    };
    // A cell leaves while so many others are made as there are slots left.
    for (int unit = 1; unit <= 4; ++unit) {
      const std::vector<std::size_t> out = moved(Lane::kOut, {"forward", -1, unit, 0});
      REQUIRE(out.size() == 1);
      CHECK(r.may_overlap(out.front(), compute("forward", unit, 1).back()));
      CHECK(r.may_overlap(out.front(), compute("forward", unit, 2).front()) == (slots == 3));
    }
    // The load that backward of a cell starts runs beside it.
    for (int unit = 2; unit <= 4; ++unit) {
      const std::vector<std::size_t> in = moved(Lane::kActivationsIn, {"backward", -1, unit, -1});
      REQUIRE(!in.empty());
      CHECK(std::any_of(in.begin(), in.end(), [&](std::size_t load) {
        return r.may_overlap(load, compute("backward", unit, 1).front());
      }));
    }
    // The first cells that are needed are still there, or come in while the head runs.
    CHECK(moved(Lane::kActivationsIn, {"head", -1, 5, -1}).empty() == (slots == 3));
  }
}

TEST_CASE("with a slot more than sub-batches forward reads nothing back") {
  for (const std::int64_t sub_batches : {1, 2, 3, 5}) {
    const auto forward_loads = [&](std::int64_t slots) {
      RunConfig config = tight_config();
      config.run.steps = 2;
      config.schedule.passes = 1;
      config.schedule.sub_batches = sub_batches;
      config.schedule.activation_slots = slots;
      Recorder r;
      trace_run(r, config);
      std::vector<std::size_t> loads = r.find("copy", {"forward"});
      std::erase_if(loads, [&](std::size_t i) {
        const TraceRecord& record = r.records()[i];
        return record.lane != Lane::kActivationsIn || record.what.tag.unit < 0;
      });
      return loads.size();
    };
    INFO("S = " << sub_batches);
    CHECK(forward_loads(sub_batches + 1) == 0);
    if (sub_batches >= 3) CHECK(forward_loads(2) > 0);
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
    for (const bool spilled : {false, true}) {
      INFO(std::string(name_of(c.level)) << (spilled ? ", spilled" : ""));
      RunConfig config = tight_config();
      config.run.steps = 1;
      config.schedule.passes = 1;
      config.schedule.activations = spilled ? KeepLevel::kRecompute : c.level;
      config.schedule.spill = c.level;
      Recorder r;
      trace_run(r, config);
      for (int unit = 1; unit <= 4; ++unit) {
        for (int cell = 0; cell < 3; ++cell) {
          const Tag tag{"backward", -1, unit, cell};
          CHECK(r.find("matmul", tag).size() == kGradients + c.products);
          CHECK(r.find("attention_forward", tag).size() == c.attentions);
          CHECK(r.find("rmsnorm_forward", tag).size() == 2);
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
  const auto self = make_self_ranks();
  TinyEngine engine(config, *self);
  engine.submit(0, 1e-3);
  engine.synchronize();
  CHECK(engine.weights().loaded_bytes() == 0);
  std::size_t norms = 0;
  for (const Block& block : engine.state().layout().blocks) {
    norms += static_cast<std::size_t>(SquaredNorm::partials(block.elements)) * sizeof(double);
  }
  CHECK(engine.gradients().offloaded_bytes() == norms);
}

TEST_CASE("loads, spills, offloads and updates may run during compute") {
  RunConfig config = tight_config();
  config.schedule.passes = 1;
  config.model.llama.tie_word_embeddings = false;
  config.run.steps = 2;
  Recorder r;
  trace_run(r, config);
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

TEST_CASE("updates on arrival, and speculative ones, may run during backward") {
  for (const UpdateTiming timing : {UpdateTiming::kOnArrival, UpdateTiming::kSpeculative}) {
    RunConfig config = tight_config();
    config.schedule.passes = 1;
    config.model.llama.tie_word_embeddings = false;
    if (timing == UpdateTiming::kOnArrival) config.optimizer.grad_clip = std::nullopt;
    config.optimizer.timing = timing;
    config.optimizer.deferred_units = 2;  // 1 and 4
    config.run.steps = 1;
    Recorder r;
    trace_run(r, config);
    const std::vector<std::size_t> update = r.find("adamw", {"update", -1, 3, -1});
    const std::vector<std::size_t> backward = r.find("attention_backward", {"backward", -1, 1, -1});
    REQUIRE(!update.empty());
    REQUIRE(!backward.empty());
    CHECK(r.may_overlap(update.front(), backward.front()));
  }
}

TEST_CASE("a gradient may leave for the ring while the one before it is used") {
  RunConfig config = ring_config();
  config.run.steps = 2;
  Recorder r;
  trace_run(r, config);
  const auto first = [&](std::string_view name, const Tag& tag) {
    const std::vector<std::size_t> found = r.find(name, tag);
    REQUIRE(!found.empty());
    return found.front();
  };
  for (const int block : {3, 5, 7}) {
    INFO(block);
    const std::size_t update = first("adamw", {"update", -1, block, -1});
    CHECK(r.may_overlap(update, first("copy", {"offload", -1, block - 1, -1})));
    CHECK(r.may_overlap(update, first("attention_backward", {"backward", -1, block - 1, -1})));
  }
  // The gradient of block 2, which is deferred, keeps its slot for the update in the next step's
  // forward.
  CHECK(r.may_overlap(first("adamw", {"update", -1, 2, -1}),
                      r.find("embedding_forward", {"forward", -1, 0, -1}).back()));
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
      Recorder r;
      trace_run(r, config, ranks);
      int on_device = 0;
      int on_host = 0;
      for (const std::string_view name : {SquaredNorm::kName, CastSquaredNorm::kName}) {
        for (const std::size_t i : r.find(name)) {
          ++(r.records()[i].lane == Lane::kOut ? on_device : on_host);
        }
      }
      CHECK(on_device == c.on_device);
      CHECK(on_host == 6 - c.on_device);
    }
  }
}

TEST_CASE("every execution submits the same work") {
  RunConfig config = spilling_config();
  config.schedule.spill_dtype = BoundaryForm::kInt8;
  Recorder threads;
  trace_run(threads, config);
  for (const Execution execution : {Execution::kEager, Execution::kShuffled}) {
    config.debug.execution = execution;
    Recorder other;
    trace_run(other, config);
    CHECK(other.canonical() == threads.canonical());
  }
}

TEST_CASE("a step allocates nothing and waits for nothing") {
  RunConfig config = spilling_config();
  config.run.steps = 1;
  const auto self = make_self_ranks();
  TinyEngine engine(config, *self);
  engine.submit(0, 1e-3);
  engine.synchronize();
  const std::int64_t allocations = engine.device().allocations();
  const std::int64_t waits = engine.device().wait_calls();
  engine.submit(1, 1e-3);
  // The run-ahead limit, and one per batch buffer, before the step's first submission.
  CHECK(engine.device().wait_calls() - waits <= 1 + config.schedule.passes);
  CHECK(engine.device().allocations() == allocations);
  engine.synchronize();
}

}  // namespace strata::test
