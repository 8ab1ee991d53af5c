// How much of a device's peak a run uses: the formula of model FLOPs utilisation (MFU).
// Predictions, benchmarks and progress lines share it, so that their figures can be compared.

#pragma once

#include <cstdint>
#include <optional>

#include "strata/model/config.h"

namespace strata {

/// Returns the FLOPs of forward and backward per token: 6 per element of a matmul (head in,
/// embedding out), and 6 * L * H * D * s for causal attention, its lower triangle counted once.
/// Neither recompute nor document masks are counted.
[[nodiscard]] double flops_per_token(const LlamaConfig& config, std::int64_t sequence_length);

/// Returns the model FLOPs utilisation in [0, 1]: flops_per_token * tokens_per_s over the dense
/// bf16 peak of all ranks. Absent where the peak of one device is unknown (0).
[[nodiscard]] std::optional<double> model_flops_utilisation(double flops_per_token,
                                                            double tokens_per_s,
                                                            double device_peak_tflops, int ranks);

}  // namespace strata
