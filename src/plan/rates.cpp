// The table of measured devices, which has one row, and the arithmetic between rates and traced
// work. What a timeline divides by is what is worked out of a trace here.

#include "strata/plan/rates.h"

#include <optional>

#include "strata/config/rate_keys.h"
#include "strata/ops/optimizer.h"

namespace strata {

namespace {

/// Returns the rates of one H200 SXM with PCIe 5 x16 and 16 cores, within a step: the clock sinks
/// under its load. docs/prediction.md says how each was measured.
Rates rates_of_h200() {
  return {.product_tflops = 687,
          .attention_forward_tflops = 608,
          .attention_backward_tflops = 386,
          .device_gbs = 3700,
          .link_gbs = 54.8,
          .host_gbs = 155,
          .task_gbs = 2.3,
          .operators = {{.name = "swiglu_forward", .device = 1.16},
                        {.name = "swiglu_backward", .device = 1.11},
                        {.name = "rmsnorm_backward", .device = 0.81},
                        {.name = "cross_entropy", .device = 0.70},
                        {.name = "embedding_forward", .device = 0.54},
                        {.name = "embedding_backward", .device = 0.42},
                        {.name = "cast", .host = 0.52},
                        {.name = "squared_norm", .host = 0.29},
                        {.name = "save_state", .host = 0.58}},
          .attention_forward_length = 518,
          .attention_backward_length = 330,
          .attention_head_share = 0.75,
          .kernel_us = 2,
          .copy_us = 10,
          .task_us = 10,
          .submit_us = 4,
          .device_under_copies = 0.96,
          .host_under_copies = 0.62,
          .link_both_ways = 0.905,
          .link_in_under_host = 0.69,
          .link_out_under_host = 0.9};
}

}  // namespace

KnownRates known_rates(std::string_view device, const HardwareSection& hardware) {
  // What a rate loses to others is taken to be alike on every machine.
  KnownRates known{.rates = rates_of_h200(), .missing = {}};
  const bool measured = device == kPlannedDevice;
  for (const RateKey& key : kRateKeys) {
    if (const std::optional<double>& given = hardware.*key.given) {
      known.rates.*key.rate = *given;
    } else if (!measured) {
      known.missing += (known.missing.empty() ? "hardware." : ", hardware.") + std::string(key.key);
    }
  }
  Rates& r = known.rates;
  r.link_gbs = hardware.link_gbs / r.link_both_ways;
  return known;
}

HardwareSection measured_rates(std::span<const WorkReport> work, std::int64_t length,
                               std::int64_t head_dim) {
  const Rates known = rates_of_h200();
  const std::string_view compute = name_of(Lane::kCompute);
  const auto rate = [&](std::string_view lane, const auto& counts, const auto& amount,
                        double start_us, double unit) -> std::optional<double> {
    double all = 0, busy_s = 0;
    for (const WorkReport& w : work) {
      if (w.lane != lane || !counts(w)) continue;
      all += w.count * amount(w);
      busy_s += w.busy_s - w.count * start_us * 1e-6;
    }
    if (!(all > 0 && busy_s > 0)) return std::nullopt;
    return all / busy_s / unit;
  };
  const auto of_kind = [](CostKind kind) {
    return [kind](const WorkReport& w) { return w.kind == kind; };
  };
  const auto flops = [](const WorkReport& w) { return w.flops; };
  const auto attention = [&](CostKind kind, double half_length) {
    const double share = attention_share(known, length, half_length, head_dim);
    return rate(
        compute, of_kind(kind), [&](const WorkReport& w) { return w.flops / share; },
        known.kernel_us, 1e12);
  };
  HardwareSection h;
  h.product_tflops = rate(compute, of_kind(CostKind::kProduct), flops, known.kernel_us, 1e12);
  h.attention_forward_tflops =
      attention(CostKind::kAttentionForward, known.attention_forward_length);
  h.attention_backward_tflops =
      attention(CostKind::kAttentionBackward, known.attention_backward_length);
  h.device_gbs = rate(
      compute, of_kind(CostKind::kMemory),
      [&](const WorkReport& w) { return w.bytes / operator_share(known, w.name).device; },
      known.kernel_us, 1e9);
  h.host_gbs = rate(
      name_of(Lane::kHost),
      [](const WorkReport& w) { return w.name == AdamW::kName && w.kind != CostKind::kRare; },
      [](const WorkReport& w) { return w.bytes; }, known.task_us, 1e9);
  return h;
}

}  // namespace strata
