// Tests steps whose products multiply codes in e4m3 on a GPU that has them: within rounding against
// the cpu backend, and bit for bit against other modes on the same GPU.

#include <string>
#include <vector>

#include "strata/ops/backend.h"
#include "support/catch.h"
#include "support/tiny_run.h"
#include "support/without_gpu.h"

namespace strata::test {
namespace {

/// Returns whether there is no GPU that multiplies codes, and says so.
bool without_codes() {
  if (without_gpu()) return true;
  constexpr int kHopper = 90;
  if (cuda_device_info()->capability == kHopper) return false;
  WARN("no GPU of compute capability 9.0");
  return true;
}

constexpr Products kBoth[] = {Products::kFp8, Products::kFp8All};

RunConfig codes_config(Products products) {
  RunConfig config = tiny_gpu_config(DType::kBF16);
  config.run.products = products;
  config.schedule.rows = 2;  // 400 tokens of a sub-batch are a multiple of 16
  config.schedule.sub_batches = 3;
  return config;
}

}  // namespace

TEST_CASE("losses with products in e4m3 on the GPU are those of the cpu", "[cuda]") {
  if (without_codes()) return;
  for (const Products products : kBoth) {
    RunConfig config = codes_config(products);
    config.optimizer.eps = 1e-3;  // as large as the gradients
    const RunResult gpu = run_tiny(config);
    config.run.backend = BackendChoice::kCpu;
    const RunResult cpu = run_tiny(config);
    config.run.dtype = DType::kF64;
    config.run.products = Products::kPlain;
    config.optimizer.gradient_dtype = DType::kF32;
    const RunResult exact = run_tiny(config);
    constexpr double kRoom = 3;
    CAPTURE(relative_error(gpu.losses, cpu.losses), relative_error(cpu.losses, exact.losses));
    CHECK(relative_error(gpu.losses, cpu.losses) <
          kRoom * relative_error(cpu.losses, exact.losses));
    CHECK(gpu.losses.back() != gpu.losses.front());
  }
}

TEST_CASE("modes with products in e4m3 that only move bytes are bitwise equal on the GPU",
          "[cuda]") {
  if (without_codes()) return;
  for (const Products products : kBoth) {
    RunConfig base = codes_config(products);
    base.schedule.activations = KeepLevel::kRecompute;
    const RunResult plain = run_tiny(base);
    const auto same = [&](const std::string& what, const RunConfig& config) {
      INFO(what);
      CHECK(run_tiny(config) == plain);
    };
    same("again", base);
    RunConfig c = base;
    for (const KeepLevel level : kKeepLevels) {
      c.schedule.activations = level;
      same("cells keep: " + std::string(name_of(level)), c);
    }
    c = base;
    c.schedule.spill = KeepLevel::kFull;
    c.schedule.activation_slots = 4;
    c.debug.poison_slots = true;
    same("spilled, poisoned", c);
    c = base;
    c.schedule.weight_slots = 1;
    same("one weight slot", c);
    c.schedule.resident_units = 3;
    same("resident units", c);
    c.run.products_bf16 = {"down"};
    CHECK(run_tiny(c) != plain);
  }
}

TEST_CASE("steps with products in e4m3 have no race and submit what the cpu backend submits",
          "[cuda]") {
  if (without_codes()) return;
  RunConfig config = codes_config(Products::kFp8All);
  config.run.products_bf16 = {"down", "layers.0"};
  config.run.steps = 2;
  config.schedule.activation_slots = 5;
  config.schedule.weight_slots = 2;
  config.schedule.activations = KeepLevel::kAttentionOut;
  config.optimizer.deferred_units = 2;
  Recorder gpu;
  Recorder cpu;
  trace_run(gpu, config);
  config.run.backend = BackendChoice::kCpu;
  trace_run(cpu, config);
  CHECK(gpu.races(1).empty());
  CHECK(gpu.canonical() == cpu.canonical());
}

}  // namespace strata::test
