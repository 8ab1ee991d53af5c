#include "train/rates.h"

#include <optional>

namespace strata {

namespace {

/// One H200 SXM with PCIe 5 x16 and 16 cores, within a step: the clock sinks under its load.
/// docs/prediction.md says how each was measured.
Rates rates_of_h200() {
  return {.product_tflops = 687,
          .attention_forward_tflops = 608,
          .attention_backward_tflops = 386,
          .device_gbs = 3700,
          .link_gbs = 54.8,
          .host_gbs = 143,
          .task_gbs = 2.3,
          .operators = {{.name = "swiglu_forward", .device = 1.16},
                        {.name = "swiglu_backward", .device = 1.11},
                        {.name = "rmsnorm_backward", .device = 0.81},
                        {.name = "cross_entropy", .device = 0.70},
                        {.name = "embedding_forward", .device = 0.54},
                        {.name = "embedding_backward", .device = 0.42},
                        {.name = "cast", .host = 0.56},
                        {.name = "squared_norm", .host = 0.31}},
          .attention_forward_length = 518,
          .attention_backward_length = 330,
          .attention_head_share = 0.75,
          .kernel_us = 2,
          .copy_us = 10,
          .task_us = 10,
          .submit_us = 18,
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
