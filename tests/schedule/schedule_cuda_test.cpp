// Tests whole steps on a GPU: within rounding against the cpu backend, and bit for bit against
// other modes on the same GPU.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "strata/ops/backend.h"
#include "support/catch.h"
#include "support/thread_ranks.h"
#include "support/tiny_run.h"
#include "support/without_gpu.h"

namespace strata::test {
TEST_CASE("a tiny model's losses on the GPU are those of the cpu", "[cuda]") {
  if (without_gpu()) return;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    INFO(std::string(name_of(dtype)));
    RunConfig config = tiny_gpu_config(dtype);
    // As large as the gradients, so that rounding errors of small ones do not become updates.
    config.optimizer.eps = 1e-3;
    const RunResult gpu = run_tiny(config);
    config.run.backend = BackendChoice::kCpu;
    const RunResult cpu = run_tiny(config);
    config.run.dtype = DType::kF64;
    const RunResult exact = run_tiny(config);
    // Each backend has its rounding error; the cpu's is measured. One more for chance. A token's
    // loss is f32 in both, and the part of its rounding that has one sign does not average out.
    constexpr double kRoom = 3;
    const double limit = kRoom * relative_error(cpu.losses, exact.losses) + std::ldexp(1.0, -24);
    CHECK(relative_error(gpu.losses, cpu.losses) < limit);
    CHECK(gpu.losses.back() != gpu.losses.front());
  }
}

TEST_CASE("modes that only move bytes are bitwise equal on the GPU", "[cuda]") {
  if (without_gpu()) return;
  RunConfig base = tiny_gpu_config(DType::kBF16);
  base.schedule.activations = KeepLevel::kRecompute;
  const RunResult plain = run_tiny(base);
  const auto same = [&](const std::string& what, const RunConfig& config) {
    INFO(what);
    CHECK(run_tiny(config) == plain);
  };
  same("again", base);
  RunConfig c = base;
  for (const std::int64_t slots : {3, 7, 13}) {
    c.schedule.activation_slots = slots;
    same("activation slots " + std::to_string(slots), c);
  }
  c = base;
  for (const std::int64_t slots : {1, 2, 4}) {
    c.schedule.weight_slots = slots;
    same("weight slots " + std::to_string(slots), c);
  }
  c = base;
  c.schedule.gradient_slots = 1;
  same("one gradient slot", c);
  c = base;
  for (const KeepLevel level : kKeepLevels) {
    c.schedule.activations = level;
    same("cells keep: " + std::string(name_of(level)), c);
  }
  const auto bytes = [&](KeepLevel level) {
    c.schedule.activations = level;
    const auto self = make_self_ranks();
    return TinyEngine(c, *self).setup().device_bytes();
  };
  const std::size_t least = bytes(KeepLevel::kRecompute);
  const std::size_t most = bytes(KeepLevel::kFull);
  c.schedule.activations = std::nullopt;
  for (const std::size_t fifths : {1, 3}) {
    c.memory.device_limit = ByteSize{least + fifths * (most - least) / 5};
    same("cells keep what fits", c);
  }
  c = base;
  for (const std::int64_t units : {1, 3, 6}) {
    c.schedule.resident_units = units;
    same("resident units " + std::to_string(units), c);
  }
  c.schedule.resident_units = std::nullopt;
  same("auto residency", c);
  c = base;
  for (const KeepLevel kept : {KeepLevel::kRecompute, KeepLevel::kAttentionOut}) {
    for (const KeepLevel spilled : {KeepLevel::kSelective, KeepLevel::kFull}) {
      for (const std::int64_t slots : {1, 3}) {
        c.schedule.activations = kept;
        c.schedule.spill = spilled;
        c.schedule.spill_slots = slots;
        same("cells keep " + std::string(name_of(kept)) + " and spill up to " +
                 std::string(name_of(spilled)) + " through " + std::to_string(slots),
             c);
      }
    }
  }
  c = base;
  c.debug.poison_slots = true;
  c.schedule.activation_slots = 5;
  c.schedule.activations = KeepLevel::kSelective;
  same("poisoned slots", c);
  c = base;
  c.debug.synchronize_each = true;
  same("synchronised after every submission", c);
}

TEST_CASE("boundaries in int8 on the GPU give the same bits through any slots", "[cuda]") {
  if (without_gpu()) return;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    INFO(std::string(name_of(dtype)));
    RunConfig c = tiny_gpu_config(dtype);
    c.schedule.activations = KeepLevel::kRecompute;
    const RunResult exact = run_tiny(c);
    c.schedule.spill_dtype = BoundaryForm::kInt8;
    const RunResult int8 = run_tiny(c);
    CHECK(int8.losses.front() == exact.losses.front());
    CHECK(!(int8 == exact));
    c.debug.poison_slots = true;
    for (const std::int64_t slots : {7, 9, 30}) {
      c.schedule.activation_slots = slots;
      CHECK(run_tiny(c) == int8);
    }
  }
}

TEST_CASE("update timings and gradient rings are bitwise equal on the GPU", "[cuda]") {
  if (without_gpu()) return;
  for (const DType moments : {DType::kF32, DType::kBF16}) {
    INFO("moments in " << std::string(name_of(moments)));
    RunConfig c = tiny_gpu_config(DType::kBF16);
    c.optimizer.moment_dtype = moments;
    c.optimizer.grad_clip = std::nullopt;
    const RunResult plain = run_tiny(c);
    c.optimizer.timing = UpdateTiming::kOnArrival;
    for (const std::int64_t units : {6, 2, 0}) {
      INFO("resident units " << units);
      c.schedule.resident_units = units;
      CHECK(run_tiny(c) == plain);
    }
    c.debug.poison_slots = true;
    for (const std::int64_t slots : {2, 3}) {
      INFO("ring of " << slots);
      c.optimizer.gradient_ring = slots;
      CHECK(run_tiny(c) == plain);
    }
  }
}

TEST_CASE("interleaved layers are updated to the same bits on the GPU", "[cuda]") {
  if (without_gpu()) return;
  RunConfig base = tiny_gpu_config(DType::kBF16);
  base.run.steps = 4;
  base.optimizer.moment_dtype = DType::kBF16;
  base.optimizer.grad_clip = std::nullopt;
  RunConfig passes = base;
  passes.schedule.passes = 2;
  RunConfig chunks = base;  // more than one of a layer
  chunks.model.llama.num_hidden_layers = 2;
  chunks.model.llama.intermediate_size = 16384;
  for (RunConfig c : {base, passes, chunks}) {
    const RunResult plain = run_tiny(c);
    for (const UpdateTiming timing : {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival}) {
      for (const double share : {0.5, 1.0}) {
        INFO(std::string(enum_name(kUpdateTimingNames, timing))
             << ", passes " << c.schedule.passes << ", intermediate size "
             << c.model.llama.intermediate_size << ", interleaved " << share);
        c.optimizer.timing = timing;
        c.optimizer.interleave = share;
        CHECK(run_tiny(c) == plain);
      }
    }
  }
}

TEST_CASE("speculative updates are bitwise those before use on the GPU", "[cuda]") {
  if (without_gpu()) return;
  for (const DType moments : {DType::kF32, DType::kBF16}) {
    RunConfig c = tiny_gpu_config(DType::kBF16);
    c.optimizer.moment_dtype = moments;
    c.optimizer.grad_clip = 1e9;
    std::vector<double> norms = run_tiny(c).norms;
    std::sort(norms.begin(), norms.end());
    for (const double clip : {1e9, norms[norms.size() / 2], 1e-6}) {
      INFO("moments in " << std::string(name_of(moments)) << ", clip " << clip);
      c.optimizer.timing = UpdateTiming::kBeforeUse;
      c.optimizer.grad_clip = clip;
      c.schedule.resident_units = 0;
      const RunResult plain = run_tiny(c);
      c.optimizer.timing = UpdateTiming::kSpeculative;
      for (const std::int64_t deferred : {0, 3}) {
        for (const std::int64_t resident : {0, 2}) {
          INFO("deferred " << deferred << ", resident " << resident);
          c.optimizer.deferred_units = deferred;
          c.schedule.resident_units = resident;
          CHECK(run_tiny(c) == plain);
        }
      }
      c.optimizer.interleave = 0.5;
      CHECK(run_tiny(c) == plain);
      c.optimizer.interleave = 0;
    }
  }
}

TEST_CASE("gradients of passes add up to the same bits on the GPU and on the host", "[cuda]") {
  if (without_gpu()) return;
  for (const bool tied : {false, true}) {
    RunConfig c = tiny_gpu_config(DType::kBF16);
    c.model.llama.tie_word_embeddings = tied;
    c.schedule.sub_batches = 2;
    c.schedule.passes = 3;
    const RunResult plain = run_tiny(c);
    c.schedule.gradient_sums = GradientSums::kDevice;
    CHECK(run_tiny(c) == plain);
    c.schedule.resident_units = 2;
    CHECK(run_tiny(c) == plain);
    c.schedule.resident_units = 6;
    CHECK(run_tiny(c) == plain);
  }
}

namespace {

/// Traces two steps on the GPU and on the cpu backend.
void check_traces(RunConfig config) {
  config.schedule.activation_slots = 5;
  config.schedule.weight_slots = 2;
  config.schedule.activations = KeepLevel::kAttentionOut;  // "auto" is for each machine,
  config.optimizer.deferred_units = 2;                     // and so is what predictions choose
  config.run.steps = 2;
  RunConfig spilling = config;
  spilling.schedule.activation_slots = 7;
  spilling.schedule.spill = KeepLevel::kFull;
  spilling.schedule.spill_dtype = BoundaryForm::kInt8;
  for (RunConfig run : {config, spilling}) {
    Recorder gpu;
    Recorder cpu;
    trace_run(gpu, run);
    run.run.backend = BackendChoice::kCpu;
    trace_run(cpu, run);
    CHECK(gpu.races(1).empty());
    CHECK(gpu.canonical() == cpu.canonical());
  }
}

}  // namespace

TEST_CASE("steps on the GPU have no race and submit what the cpu backend submits", "[cuda]") {
  if (without_gpu()) return;
  RunConfig config = tiny_gpu_config(DType::kBF16);
  check_traces(config);
  config.optimizer.timing = UpdateTiming::kSpeculative;
  check_traces(config);
  config.optimizer.grad_clip = std::nullopt;
  config.optimizer.timing = UpdateTiming::kOnArrival;
  config.optimizer.gradient_ring = 4;
  check_traces(config);
  config.optimizer.interleave = 0.5;
  check_traces(config);
  config.optimizer.timing = UpdateTiming::kBeforeUse;
  config.optimizer.gradient_ring = std::nullopt;
  check_traces(config);
}

}  // namespace strata::test
