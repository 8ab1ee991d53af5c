// Tests whole steps on a GPU: within rounding against the cpu backend, and bit for bit against
// other modes on the same GPU.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "modes.h"
#include "strata/ops/backend.h"
#include "strata/ops/moment_codes.h"
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
    constexpr double kChance = 3;
    const double limit = kChance * relative_error(cpu.losses, exact.losses) + std::ldexp(1.0, -24);
    CHECK(relative_error(gpu.losses, cpu.losses) < limit);
    CHECK(gpu.losses.back() != gpu.losses.front());
  }
}

TEST_CASE("modes that only move bytes are bitwise equal on the GPU", "[cuda]") {
  if (without_gpu()) return;
  RunConfig base = tiny_gpu_config(DType::kBF16);
  base.schedule.activations = KeepLevel::kRecompute;
  const RunResult plain = run_tiny(base);
  const auto same = [&](const std::string& keys) {
    INFO(keys);
    CHECK(run_tiny(mode_of(base, keys).config) == plain);
  };
  for (const char* keys :
       {"", "schedule.activation_slots=3", "schedule.activation_slots=7",
        "schedule.activation_slots=13", "schedule.weight_slots=1", "schedule.weight_slots=2",
        "schedule.weight_slots=4", "schedule.gradient_slots=1", "schedule.resident_units=1",
        "schedule.resident_units=3", "schedule.resident_units=6", "schedule.resident_units=null",
        "debug.poison_slots=true schedule.activation_slots=5 schedule.activations=selective",
        "debug.synchronize_each=true"}) {
    same(keys);
  }
  for (const KeepLevel level : kKeepLevels) {
    same("schedule.activations=" + std::string(name_of(level)));
  }
  for (const std::string kept : {"recompute", "attention_out"}) {
    for (const std::string spilled : {"selective", "full"}) {
      for (const std::string slots : {"1", "3"}) {
        same("schedule.activations=" + kept + " schedule.spill=" + spilled +
             " schedule.spill_slots=" + slots);
      }
    }
  }
  const auto bytes = [&](KeepLevel level) {
    RunConfig c = base;
    c.schedule.activations = level;
    const auto self = make_self_ranks();
    return TinyEngine(c, *self).setup().device_bytes();
  };
  const std::size_t least = bytes(KeepLevel::kRecompute);
  const std::size_t most = bytes(KeepLevel::kFull);
  for (const std::size_t fifths : {1, 3}) {  // cells keep what fits
    same("schedule.activations=auto memory.device_limit=" +
         std::to_string(least + fifths * (most - least) / 5));
  }
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
  for (const DType moments : {DType::kF32, DType::kBF16, kMomentCode}) {
    RunConfig base = tiny_gpu_config(DType::kBF16);
    base.optimizer.moment_dtype = moments;
    base.optimizer.grad_clip = std::nullopt;
    const RunResult plain = run_tiny(base);
    base.optimizer.timing = UpdateTiming::kOnArrival;
    const std::string ring =
        "schedule.resident_units=0 debug.poison_slots=true "
        "optimizer.gradient_ring=";
    for (const std::string& keys :
         {std::string("schedule.resident_units=6"), std::string("schedule.resident_units=2"),
          std::string("schedule.resident_units=0"), ring + "2", ring + "3"}) {
      INFO(keys << ", moments in " << std::string(moment_name(moments)));
      CHECK(run_tiny(mode_of(base, keys).config) == plain);
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
  RunConfig codes = base;
  codes.optimizer.moment_dtype = kMomentCode;
  RunConfig chunks_of_codes = chunks;
  chunks_of_codes.optimizer.moment_dtype = kMomentCode;
  for (RunConfig c : {base, passes, chunks, codes, chunks_of_codes}) {
    const RunResult plain = run_tiny(c);
    for (const UpdateTiming timing : {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival}) {
      for (const double share : {0.5, 1.0}) {
        INFO(std::string(enum_name(kUpdateTimingNames, timing))
             << ", moments in " << std::string(moment_name(c.optimizer.moment_dtype)) << ", passes "
             << c.schedule.passes << ", intermediate size " << c.model.llama.intermediate_size
             << ", interleaved " << share);
        c.optimizer.timing = timing;
        c.optimizer.interleave = share;
        CHECK(run_tiny(c) == plain);
      }
    }
  }
}

TEST_CASE("speculative updates are bitwise those before use on the GPU", "[cuda]") {
  if (without_gpu()) return;
  for (const DType moments : {DType::kF32, DType::kBF16, kMomentCode}) {
    RunConfig base = tiny_gpu_config(DType::kBF16);
    base.optimizer.moment_dtype = moments;
    base.optimizer.grad_clip = 1e9;
    std::vector<double> norms = run_tiny(base).norms;
    std::sort(norms.begin(), norms.end());
    for (const double clip : {1e9, norms[norms.size() / 2], 1e-6}) {
      base.optimizer.grad_clip = clip;
      const RunResult plain = run_tiny(base);
      for (const std::string keys :
           {"optimizer.deferred_units=0", "optimizer.deferred_units=0 schedule.resident_units=2",
            "optimizer.deferred_units=3", "optimizer.deferred_units=3 schedule.resident_units=2",
            "optimizer.deferred_units=3 schedule.resident_units=2 optimizer.interleave=0.5"}) {
        INFO(keys << ", moments in " << std::string(moment_name(moments)) << ", clip " << clip);
        CHECK(run_tiny(mode_of(base, "optimizer.timing=speculative " + keys).config) == plain);
      }
    }
  }
}

TEST_CASE("gradients of passes add up to the same bits on the GPU and on the host", "[cuda]") {
  if (without_gpu()) return;
  for (const std::string tied : {"false", "true"}) {
    const RunConfig base = mode_of(tiny_gpu_config(DType::kBF16),
                                   "schedule.sub_batches=2 schedule.passes=3 "
                                   "model.tie_word_embeddings=" +
                                       tied)
                               .config;
    const RunResult plain = run_tiny(base);
    for (const std::string units : {"0", "2", "6"}) {
      INFO("tied " << tied << ", resident units " << units);
      CHECK(run_tiny(mode_of(base, "schedule.gradient_sums=device schedule.resident_units=" + units)
                         .config) == plain);
    }
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
  config.optimizer.moment_dtype = kMomentCode;
  check_traces(config);
  config.optimizer.timing = UpdateTiming::kBeforeUse;
  config.optimizer.gradient_ring = std::nullopt;
  check_traces(config);
}

TEST_CASE("muon on the GPU is that of the cpu, and repeats its bits through any slots", "[cuda]") {
  if (without_gpu()) return;
  RunConfig config = tiny_gpu_config(DType::kF32);
  config.optimizer.kind = OptimizerKind::kMuon;
  config.optimizer.eps = 1e-3;  // as above: of what AdamW updates
  const RunResult gpu = run_tiny(config);
  config.run.backend = BackendChoice::kCpu;
  CHECK(relative_error(gpu.losses, run_tiny(config).losses) < 1e-4);
  CHECK(gpu.losses.back() != gpu.losses.front());

  RunConfig base = tiny_gpu_config(DType::kBF16);
  base.optimizer.kind = OptimizerKind::kMuon;
  const RunResult plain = run_tiny(base);
  for (const char* keys :
       {"", "schedule.weight_slots=1", "schedule.weight_slots=4", "debug.synchronize_each=true",
        "debug.poison_slots=true schedule.activation_slots=5 schedule.activations=selective"}) {
    INFO(keys);
    CHECK(run_tiny(mode_of(base, keys).config) == plain);
  }
  check_traces(base);
}

}  // namespace strata::test
