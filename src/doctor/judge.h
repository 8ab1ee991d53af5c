// Says of facts whether they are well, and what to do where they are not. All functions are pure:
// the same facts give the same findings. docs/doctor.md has the thresholds with their reasons.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "doctor/machine_facts.h"
#include "strata/base/version.h"
#include "strata/device/device.h"
#include "strata/doctor/examine_machine.h"
#include "strata/doctor/finding.h"

namespace strata {

/// What concerns GPUs beside what nvidia-smi says of them.
struct GpuContext {
  BuildInfo build{};
  std::vector<DeviceInfo> devices{};  ///< the GPUs that the program can use
  std::string visible{};              ///< CUDA_VISIBLE_DEVICES, if it is set
  CoreBits cores{};                   ///< those that this process may run on
};

/// Returns whether a build has the cuda backend.
[[nodiscard]] bool has_cuda(const BuildInfo& build);

/// Judges the program and the GPUs: drivers, code for them, who else uses them, clocks, PCIe. Where
/// the program can use only some of the GPUs, the others are left out.
[[nodiscard]] std::vector<Finding> judge_gpus(const GpuSurvey& survey, const GpuContext& context);
/// Judges the rates of links by what the GPUs' links reach where all is well.
[[nodiscard]] std::vector<Finding> judge_links(std::span<const LinkRates> links);

/// Judges memory, cores, huge pages, limits and NUMA nodes of a host whose GPUs have `gpu_bytes` of
/// memory between them, for one of `ranks` that were started together.
[[nodiscard]] std::vector<Finding> judge_host(const HostFacts& facts, std::size_t gpu_bytes,
                                              int ranks);
/// Judges AdamW's rate by what hosts of such GPUs usually have; `gpu` is its name, or empty.
[[nodiscard]] Finding judge_rates(const HostRates& rates, const std::string& gpu);

/// Judges the folder of checkpoints by what a run saves there, or by what many runs do.
[[nodiscard]] Finding judge_folder(const FolderFacts& facts,
                                   const std::optional<SavedBytes>& saves);

/// Judges what starts ranks and connects them, on a host with so many GPUs.
[[nodiscard]] std::vector<Finding> judge_job(const JobFacts& facts, const HostFacts& host,
                                             std::size_t gpus, const BuildInfo& build);

}  // namespace strata
