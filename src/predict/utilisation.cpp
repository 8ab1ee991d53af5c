// Computes model FLOPs utilisation by the formulas of utilisation.h. They count what the model asks
// for, not what the device does, so that a run gains nothing by computing more.

#include "strata/predict/utilisation.h"

#include <algorithm>

#include "strata/base/log.h"
#include "strata/ops/attention.h"

namespace strata {

double flops_per_token(const ModelSpec& spec, std::int64_t sequence_length, double attended) {
  std::int64_t widths = 0;  // of what attention returns, in all layers without a window
  double windowed = 0;      // widths times lengths in the others
  for (int layer = 0; layer < spec.layers(); ++layer) {
    const AttentionSpec& of = spec.layer(layer).attention;
    if (of.window == 0) {
      widths += of.query_width();
      continue;
    }
    const auto length = static_cast<double>(windowed_length(sequence_length, of.window));
    const double masked = static_cast<double>(sequence_length) * attended;
    windowed += static_cast<double>(of.query_width()) * std::min(length, masked);
  }
  const double attention =
      static_cast<double>(widths) * static_cast<double>(sequence_length) * attended + windowed;
  const double of_weight = spec.adapted() ? 4 : 6;  // without a gradient of the weight
  const bool beside = spec.adapted() && spec.trains_projection();
  const double of_projection = beside ? 2.0 * static_cast<double>(spec.vocabulary * spec.width) : 0;
  return of_weight * static_cast<double>(spec.matmul_parameter_count()) + of_projection +
         6.0 * (static_cast<double>(spec.adapter_parameter_count()) + attention);
}

DevicePeak device_peak(const HardwareSection& hardware, double datasheet_tflops) {
  if (hardware.peak_tflops) return {*hardware.peak_tflops, "hardware.peak_tflops"};
  return {datasheet_tflops, "the datasheet"};
}

std::optional<double> model_flops_utilisation(double flops_per_token, double tokens_per_s,
                                              double device_peak_tflops, int ranks) {
  if (!(device_peak_tflops > 0)) return std::nullopt;
  return flops_per_token * tokens_per_s / (device_peak_tflops * 1e12 * ranks);
}

std::string peak_warning(const std::optional<double>& mfu, const DevicePeak& peak) {
  if (!mfu || *mfu <= 1) return {};
  return fmt::format(
      "MFU is {:.1f} %, and no device does more than its peak: {:.4g} TFLOP/s, of {}, is not "
      "this device's; set hardware.peak_tflops to its dense bf16 rate",
      100 * *mfu, peak.tflops, peak.origin);
}

}  // namespace strata
