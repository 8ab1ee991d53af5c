// How much of a device's peak a run uses: the formula of model FLOPs utilisation (MFU).
// Predictions, benchmarks and progress lines share it, so that their figures can be compared.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/config/config.h"
#include "strata/model/spec.h"

namespace strata {

/// Returns the FLOPs of forward and backward per token: 6 per element of a matmul (head in,
/// embedding out), and 6 * L * H * D * s for causal attention, its lower triangle counted once.
/// With adapters elements of the model's matmuls are 4, since no gradient of them is computed, but
/// for a projection that is trained; those of A and B are 6. Where a layer has a window s is what
/// windowed_length() says. Recompute is not counted. `attended` is the share of attention that
/// document masks leave, from 0 to 1: that of squared lengths of documents in squared lengths of
/// rows. In layers with a window the smaller of both counts.
[[nodiscard]] double flops_per_token(const ModelSpec& spec, std::int64_t sequence_length,
                                     double attended = 1);

/// The dense bf16 peak of one device, and who says so.
struct DevicePeak {
  double tflops = 0;   ///< 0: unknown
  std::string origin;  ///< "hardware.peak_tflops", or "the datasheet"
};
/// Returns what the config gives, or else what the datasheet says (0 if that is not known).
[[nodiscard]] DevicePeak device_peak(const HardwareSection& hardware, double datasheet_tflops);

/// Returns the model FLOPs utilisation in [0, 1]: flops_per_token * tokens_per_s over the dense
/// bf16 peak of all ranks. Absent where the peak of one device is unknown (0).
[[nodiscard]] std::optional<double> model_flops_utilisation(double flops_per_token,
                                                            double tokens_per_s,
                                                            double device_peak_tflops, int ranks);
/// Returns what to tell the user of a utilisation above 1, which no device reaches: that the peak
/// is wrong, who gave it and which key sets it. Empty for any other.
[[nodiscard]] std::string peak_warning(const std::optional<double>& mfu, const DevicePeak& peak);

}  // namespace strata
