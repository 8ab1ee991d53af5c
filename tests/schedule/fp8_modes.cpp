// Turns the table of modes into one of runs whose products multiply codes in e4m3.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "modes.h"

namespace strata::test {

namespace {

/// Returns what the run takes on the device if cells keep nothing.
std::size_t least_bytes(RunConfig config) {
  config.memory.device_limit.reset();
  config.schedule.activations = KeepLevel::kRecompute;
  return make_setup(config, 0, 1, {}).device_bytes();
}

/// Sets the products of row `number`, and whether steps count what these lose.
void set_products(RunSection& run, std::size_t number) {
  run.products = number % 2 == 0 ? Products::kFp8 : Products::kFp8All;
  run.fp8_metrics_every = static_cast<std::int64_t>(number % 4 / 2);
  switch (number % 3) {
    case 0: break;
    case 1: run.products_bf16 = {"down"}; break;
    default: run.products_bf16 = {"layers.0", "attention_out"}; break;
  }
}

}  // namespace

std::vector<Mode> in_fp8(std::vector<Mode> modes) {
  std::erase_if(modes, [](const Mode& mode) {
    return mode.config.memory.device_limit && mode.config.run.dtype != DType::kBF16;
  });
  std::size_t number = 0;
  for (Mode& mode : modes) {
    RunConfig& c = mode.config;
    c.run.dtype = DType::kBF16;
    const RunConfig before = c;
    set_products(c.run, number++);
    mode.name += " fp8 " + std::to_string((number - 1) % 6);
    if (!c.memory.device_limit) continue;
    c.memory.device_limit->bytes += least_bytes(c) - least_bytes(before);
  }
  return modes;
}

}  // namespace strata::test
