// Finds the rates of a device, and works rates out of traced work. A device's rates are those of
// its row in the table of GPUs, beside what was measured once and is taken to be alike everywhere.
// What a timeline divides by is what is worked out of a trace here.

#include "strata/predict/known_rates.h"

#include <algorithm>
#include <optional>

#include "strata/base/log.h"
#include "strata/device/gpu_models.h"
#include "strata/ops/optimizer.h"
#include "strata/predict/rank_rates.h"
#include "strata/predict/rate_keys.h"

namespace strata {

namespace {

/// Returns what rates lose to each other and to their starts, as measured on one H200 SXM with PCIe
/// 5 x16 and 16 cores. It is taken to be alike on every machine. docs/prediction.md says how each
/// was measured.
Rates common_shares() {
  return {.codes_product_gain = 1.75,
          .host_attention_flops = 3,
          .coded_gparams = 9.8,
          .task_gbs = 2.3,
          .operators = {{.name = "swiglu_forward", .device = 1.16},
                        {.name = "swiglu_backward", .device = 1.11},
                        {.name = "rmsnorm_backward", .device = 0.81},
                        {.name = "cross_entropy", .device = 0.70},
                        {.name = "embedding_forward", .device = 0.54},
                        {.name = "embedding_backward", .device = 0.42},
                        {.name = "matmul", .device = 1.16},
                        {.name = "fused_linear", .device = 1.12},
                        {.name = "fused_attend", .device = 1.11},
                        {.name = "attention_forward", .device = 1.11, .host = 0.6},
                        {.name = "attend_int8_kv", .device = 0.87, .host = 0.55},
                        {.name = "cast", .host = 0.52},
                        {.name = "squared_norm", .host = 0.29},
                        {.name = "save_state", .host = 0.58}},
          .attention_forward_length = 518,
          .attention_backward_length = 330,
          .attention_backward_gain = 0.28,
          .attention_head_share = 0.75,
          .kernel_us = 2,
          .thin_product_us = 5,
          .copy_us = 10,
          .task_us = 10,
          .submit_us = 4,
          .device_under_copies = 0.96,
          .host_under_copies = 0.62,
          .link_both_ways = 0.905,
          .link_in_under_host = 0.69,
          .link_in_under_attention = 0.95,
          .link_out_under_host = 0.9};
}

/// Fills in the rates that kRateKeys lists.
void take_rates(Rates& rates, const GpuModel& gpu) {
  rates.product_tflops = gpu.product_tflops;
  rates.attention_forward_tflops = gpu.attention_forward_tflops;
  rates.attention_backward_tflops = gpu.attention_backward_tflops;
  rates.device_gbs = gpu.device_gbs;
  rates.host_gbs = gpu.host_gbs;
  rates.multiprocessors = gpu.multiprocessors;
}

/// Which keys the config gives, and which rates of kRateKeys are stored ones.
struct Origins {
  std::string given_keys;
  std::string stored_keys;
  bool all_given_or_stored = true;
};

/// Returns whose the rates are, how they are known, and which the config gives instead.
std::string source_of(std::string_view device, const GpuModel* gpu, const HardwareSection& hardware,
                      const Origins& from, const std::optional<StoredRates>& stored) {
  const std::string measured =
      from.stored_keys.empty() ? "" : "measured on " + stored->where + ", " + stored->date;
  const std::string given = from.given_keys.empty() ? "" : "; as given: " + from.given_keys;
  const std::string name = gpu != nullptr   ? std::string(gpu->name)
                           : device.empty() ? "a GPU"
                                            : std::string(device);
  if (from.all_given_or_stored) {
    if (measured.empty() && gpu == nullptr) return name + " (all rates as given)";
    if (!measured.empty()) return name + " (" + measured + given + ")";
  }
  if (gpu == nullptr) return name;  // something is missing
  std::string text = name + (gpu->measured ? " (measured" : " (datasheet estimates");
  const bool host_known = hardware.host_gbs || (stored && stored->rates.host_gbs);
  if (!gpu->measured && !host_known) {
    text += fmt::format("; a host of {:.0f} GB/s, hardware.host_gbs", gpu->host_gbs);
  }
  if (!measured.empty()) text += "; " + measured + ": " + from.stored_keys;
  return text + given + ")";
}

/// Adds a key to a list of keys.
void list(std::string& keys, std::string_view key) {
  keys += (keys.empty() ? "hardware." : ", hardware.") + std::string(key);
}

/// Fills in the rates of kRateKeys that the config gives or that are stored, and lists those that
/// nobody knows.
Origins fill_rates(Rates& rates, const HardwareSection& hardware,
                   const std::optional<StoredRates>& stored, bool listed, std::string& missing) {
  Origins from;
  for (const RateKey& key : kRateKeys) {
    if (const std::optional<double>& given = hardware.*key.given) {
      rates.*key.rate = *given;
      list(from.given_keys, key.key);
    } else if (stored && stored->rates.*key.given) {
      rates.*key.rate = *(stored->rates.*key.given);
      list(from.stored_keys, key.key);
    } else {
      from.all_given_or_stored = false;
      if (!listed) list(missing, key.key);
    }
  }
  return from;
}

/// Returns how ranks reach each other, and adds to `missing` what nobody said of it.
PeerLink peers_of(const GpuModel* gpu, const HardwareSection& hardware, const RankLayout& layout,
                  std::string& missing) {
  PeerLink peers = gpu == nullptr ? PeerLink{} : gpu->peers;
  if (hardware.collective_gbs) {
    peers.collective_gbs = *hardware.collective_gbs;
    if (gpu == nullptr) peers.over_pcie = peers.collective_gbs <= hardware.link_gbs.value_or(0);
  }
  if (hardware.nic_gbs) peers.nic_gbs = *hardware.nic_gbs / layout.on_host;
  if (layout.on_host > 1 && !(peers.collective_gbs > 0)) list(missing, "collective_gbs");
  if (layout.hosts() > 1 && !(peers.nic_gbs > 0)) list(missing, "nic_gbs");
  return peers;
}

/// Returns where ranks are taken to be: ", 64 ranks on 8 hosts with NICs of 400 GB/s".
std::string ranks_text(const RankLayout& layout, const PeerLink& peers) {
  const int hosts = layout.hosts();
  std::string text =
      fmt::format(", {} ranks on {} host{}", layout.world(), hosts, hosts == 1 ? "" : "s");
  if (hosts == 1) return text;
  return text + fmt::format(" with NICs of {:.4g} GB/s", peers.nic_gbs * layout.on_host);
}

}  // namespace

KnownRates known_rates(std::string_view device, const HardwareSection& hardware,
                       const RankLayout& layout, const std::optional<StoredRates>& stored) {
  KnownRates known;
  known.rates = common_shares();
  const GpuModel* gpu = gpu_of_device(device);
  if (gpu != nullptr) take_rates(known.rates, *gpu);
  Origins from = fill_rates(known.rates, hardware, stored, gpu != nullptr, known.missing);
  const bool known_here = hardware.product_tflops || (stored && stored->rates.product_tflops);
  if (gpu != nullptr && !gpu->measured && !known_here) {
    known.estimated = true;
    known.best_tflops = gpu->best_mfu * gpu->peak_tflops;
  }
  if (hardware.link_gbs) list(from.given_keys, "link_gbs");
  Rates& r = known.rates;
  r.link_gbs = hardware.link_gbs.value_or(link_gbs_of_device(device)) / r.link_both_ways;
  std::string ranks;
  if (layout.world() > 1) {
    const PeerLink peers = peers_of(gpu, hardware, layout, known.missing);
    r.collectives = collective_rates(peers, r.link_gbs, layout);
    if (gpu == nullptr || !gpu->owns_host()) share_host(r, layout.on_host);
    wait_for_slowest(r, layout.world());
    if (hardware.collective_gbs) list(from.given_keys, "collective_gbs");
    if (hardware.nic_gbs) list(from.given_keys, "nic_gbs");
    ranks = ranks_text(layout, peers);
  }
  known.source = source_of(device, gpu, hardware, from, stored) + ranks;
  return known;
}

HardwareSection measured_rates(std::span<const WorkReport> work, std::int64_t length,
                               std::int64_t head_dim) {
  const Rates known = common_shares();
  const std::string_view compute = name_of(Lane::kCompute);
  const auto rate = [&](std::string_view lane, const auto& counts, const auto& amount,
                        double start_us, double unit) -> std::optional<double> {
    double all = 0, busy_s = 0, starts_s = 0;
    for (const WorkReport& w : work) {
      if (w.lane != lane || !counts(w)) continue;
      all += w.count * amount(w);
      busy_s += w.busy_s;
      starts_s += w.count * start_us * 1e-6;
    }
    if (!(all > 0 && busy_s > 0)) return std::nullopt;
    // Of work as short as its start the estimate of the start would leave nothing.
    constexpr double kMostStart = 0.5;
    return all / (busy_s - std::min(starts_s, kMostStart * busy_s)) / unit;
  };
  const auto of_kind = [](CostKind kind) {
    return [kind](const WorkReport& w) { return w.kind == kind; };
  };
  const auto flops = [](const WorkReport& w) { return w.flops; };
  const auto attention = [&](CostKind kind) {
    const double share = attention_share(known, kind, length, head_dim);
    return rate(
        compute, of_kind(kind), [&](const WorkReport& w) { return w.flops / share; },
        known.kernel_us, 1e12);
  };
  HardwareSection h;
  h.product_tflops = rate(compute, of_kind(CostKind::kProduct), flops, known.kernel_us, 1e12);
  h.attention_forward_tflops = attention(CostKind::kAttentionForward);
  h.attention_backward_tflops = attention(CostKind::kAttentionBackward);
  h.device_gbs = rate(
      compute, of_kind(CostKind::kMemory),
      [&](const WorkReport& w) { return w.bytes / operator_share(known, w.name).device; },
      known.kernel_us, 1e9);
  h.host_gbs = rate(
      name_of(Lane::kHost),
      [](const WorkReport& w) { return is_update(w.name) && w.kind != CostKind::kRare; },
      [](const WorkReport& w) { return w.bytes; }, known.task_us, 1e9);
  return h;
}

}  // namespace strata
