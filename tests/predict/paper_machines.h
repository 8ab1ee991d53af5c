// Machines and configs that exist on paper only, for tests of predictions and of what is chosen by
// them. Rates are extreme, so that the answer is evident.

#pragma once

#include <string>
#include <vector>

#include "strata/config/config.h"
#include "support/places.h"
#include "support/tiny_config.h"

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

/// Returns a run whose layers are large enough that bytes count, and not the starts of copies.
[[nodiscard]] inline RunConfig fast_machine_with_large_layers() {
  RunConfig config = fast_machine();
  config.model.llama.hidden_size = 64;
  config.model.llama.intermediate_size = 256;
  config.model.llama.num_hidden_layers = 8;
  return config;
}

/// Returns the same with a host so slow that updates on the device are worth it.
[[nodiscard]] inline RunConfig slow_host() {
  RunConfig config = fast_machine_with_large_layers();
  config.hardware.host_gbs = 1e-3;
  return config;
}

/// Returns one of configs/ with assignments like `--set`.
[[nodiscard]] inline RunConfig config_file(const char* name,
                                           const std::vector<std::string>& sets = {}) {
  return load_run_config(configs_folder() + "/" + name, sets, TrainingData::kOptional);
}

}  // namespace strata::test
