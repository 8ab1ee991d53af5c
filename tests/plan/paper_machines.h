// Machines and configs that exist on paper only, for tests of predictions and of what is chosen by
// them. Rates are extreme, so that the answer is evident.

#pragma once

#include <string>
#include <vector>

#include "strata/config/config.h"
#include "support/tiny_run.h"

namespace strata::test {

/// The name of a device of which no rates are known but those that a config gives.
inline constexpr const char* kNewDevice = "a device of the future";

/// Returns a tiny run in bf16 that keeps everything, on a machine of which everything is known and
/// nothing is slow but what the test says.
[[nodiscard]] inline RunConfig fast_machine() {
  RunConfig config = tiny_config();
  config.run.dtype = DType::kBF16;
  config.schedule.activations = KeepLevel::kFull;
  constexpr double kInstant = 1e12;
  config.hardware.product_tflops = kInstant;
  config.hardware.attention_forward_tflops = kInstant;
  config.hardware.attention_backward_tflops = kInstant;
  config.hardware.device_gbs = kInstant;
  config.hardware.host_gbs = kInstant;
  config.hardware.link_gbs = kInstant;
  return config;
}

/// Returns one of configs/ with assignments like `--set`.
[[nodiscard]] inline RunConfig config_file(const char* name,
                                           const std::vector<std::string>& sets = {}) {
  return load_run_config(std::string(STRATA_CONFIG_DIR) + "/" + name, sets,
                         TrainingData::kOptional);
}

}  // namespace strata::test
