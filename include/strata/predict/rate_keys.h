// This table lists the rates of a machine that a config can give: key, member of the config, member
// of the rates. Predictions read them by it, and the benchmark writes what it measured by it.

#pragma once

#include <optional>
#include <string_view>

#include "strata/config/config.h"
#include "strata/predict/rates.h"

namespace strata {

/// One rate that `hardware.<key>` gives, in the unit that the key names.
struct RateKey {
  std::string_view key;
  std::optional<double> HardwareSection::*given;
  double Rates::*rate;
};
inline constexpr RateKey kRateKeys[] = {
    {"product_tflops", &HardwareSection::product_tflops, &Rates::product_tflops},
    {"attention_forward_tflops", &HardwareSection::attention_forward_tflops,
     &Rates::attention_forward_tflops},
    {"attention_backward_tflops", &HardwareSection::attention_backward_tflops,
     &Rates::attention_backward_tflops},
    {"device_gbs", &HardwareSection::device_gbs, &Rates::device_gbs},
    {"host_gbs", &HardwareSection::host_gbs, &Rates::host_gbs}};

}  // namespace strata
