// Machines on paper, whose rates tests give, and the configs of configs/, for tests of predictions
// and of what is chosen by them.

#pragma once

#include <string>
#include <vector>

#include "strata/config/config.h"
#include "support/tiny_run.h"

namespace strata::test {

/// No rates are known of it but those that a config gives.
inline constexpr const char* kNewDevice = "a device of the future";

/// bf16, everything kept, on a machine of which everything is known and nothing slow but what the
/// test says.
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

/// One of configs/.
[[nodiscard]] inline RunConfig config_file(const char* name,
                                           const std::vector<std::string>& sets = {}) {
  return load_run_config(std::string(STRATA_CONFIG_DIR) + "/" + name, sets,
                         TrainingData::kOptional);
}

}  // namespace strata::test
