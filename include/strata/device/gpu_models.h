// The GPUs that strata knows by name: what CUDA calls them, how much memory they have and how fast
// they are. Plans for a GPU that is not there take memory and rates from here, and utilisation its
// peak. Plain data; what was measured and what is an estimate is said.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace strata {

/// How the GPUs of a host reach each other, and hosts the GPUs of others.
struct PeerLink {
  /// What collectives among four or more ranks of a host reach, as bus bandwidth, GB/s.
  double collective_gbs = 0;
  bool over_pcie = false;  ///< they share the link to the host with copies
  double nic_gbs = 0;      ///< each way, a GPU's share of the NICs that such a host usually has
};

/// One GPU. Rates are those of its datasheet or estimates made from it, but where `measured`.
struct GpuModel {
  std::string_view name;                         ///< "RTX 4090"
  std::string_view short_name;                   ///< "4090", which `--gpu` takes, too; may be empty
  std::span<const std::string_view> cuda_names;  ///< as the driver reports it
  int capability = 0;                            ///< 10 * major + minor
  int multiprocessors = 0;
  double memory_gib = 0;      ///< as CUDA reports it, error correction and reserve taken off
  double peak_tflops = 0;     ///< bf16, dense, accumulated in f32: the datasheet's
  double product_tflops = 0;  ///< large bf16 products, sustained
  double attention_forward_tflops = 0;   ///< for endless rows with a head dim of 128
  double attention_backward_tflops = 0;  ///< for the same, at the clock of steps of short rows
  double device_gbs = 0;                 ///< what kernels reach of the memory's bandwidth
  int pcie = 0;                          ///< generation of its lanes; 0: another link
  double link_gbs = 0;                   ///< copies each way while both run
  double host_gbs =
      0;  ///< AdamW on the host that such a GPU usually has: nothing of the GPU itself
  PeerLink peers{};
  bool measured = false;
  /// MFU that the best published program reaches on it or the nearest card, which no prediction
  /// made of estimates exceeds, from 0 to 1; 0 where predictions are compared with runs.
  double best_mfu = 0;

  [[nodiscard]] std::size_t memory_bytes() const;
  /// Returns true for a GPU that has a host's memory to itself: that of its superchip.
  [[nodiscard]] bool owns_host() const { return pcie == 0; }
};

/// Returns all of them.
[[nodiscard]] std::span<const GpuModel> gpu_models();
/// Returns the one that the driver reports by this name, or null.
[[nodiscard]] const GpuModel* gpu_of_device(std::string_view cuda_name);
/// Returns the one that a person means: by name, short name or the driver's; case, spaces and
/// dashes do not count. Throws ConfigError that lists all names.
[[nodiscard]] const GpuModel& gpu_named(std::string_view name);
/// Returns "RTX 3090, RTX 4090, ...".
[[nodiscard]] std::string gpu_names();
/// Returns the rate of the link of a device of this name, each way while both run; that of PCIe 5
/// for one that is not listed.
[[nodiscard]] double link_gbs_of_device(std::string_view cuda_name);

}  // namespace strata
