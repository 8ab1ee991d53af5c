#include "train/rates.h"

#include <optional>

namespace strata {

namespace {

/// One H200 SXM with PCIe 5 x16 and 16 cores. docs/prediction.md says how each was measured.
Rates rates_of_h200() {
  return {.product_tflops = 687,
          .attention_forward_tflops = 737,
          .attention_backward_tflops = 500,
          .device_gbs = 3700,
          .link_gbs = 54.8,
          .host_gbs = 157,
          .task_gbs = 6,
          .attention_forward_length = 518,
          .attention_backward_length = 330,
          .attention_head_share = 0.75,
          .kernel_us = 2,
          .copy_us = 10,
          .task_us = 10,
          .submit_us = 6,
          .device_under_copies = 0.96,
          .host_under_copies = 0.59,
          .link_both_ways = 0.905,
          .link_in_under_host = 0.77,
          .link_out_under_host = 1};
}

}  // namespace

KnownRates known_rates(std::string_view device, const HardwareSection& hardware) {
  // What a rate loses to others is taken to be alike on every machine.
  KnownRates known{.rates = rates_of_h200(), .missing = {}};
  const bool measured = device == kPlannedDevice;
  const auto take = [&](double& rate, const std::optional<double>& given, const char* key) {
    if (given) {
      rate = *given;
    } else if (!measured) {
      known.missing += (known.missing.empty() ? "hardware." : ", hardware.") + std::string(key);
    }
  };
  Rates& r = known.rates;
  take(r.product_tflops, hardware.product_tflops, "product_tflops");
  take(r.attention_forward_tflops, hardware.attention_forward_tflops, "attention_forward_tflops");
  take(r.attention_backward_tflops, hardware.attention_backward_tflops,
       "attention_backward_tflops");
  take(r.device_gbs, hardware.device_gbs, "device_gbs");
  take(r.host_gbs, hardware.host_gbs, "host_gbs");
  r.link_gbs = hardware.link_gbs / r.link_both_ways;
  return known;
}

}  // namespace strata
