// GPUs are judged one by one, each by what it is, who uses it, what slows it down and how it is
// connected.

#include <algorithm>
#include <string_view>

#include "doctor/judge.h"
#include "doctor/nvidia_smi.h"
#include "doctor/worsen.h"
#include "strata/base/bytes.h"
#include "strata/base/log.h"
#include "strata/device/gpu_code.h"
#include "strata/device/gpu_models.h"

namespace strata {

namespace {

/// A GPU of which others hold less is free: displays and drivers take some hundred MiB.
constexpr std::size_t kFreeGpuBytes = kGiB;
constexpr int kBusyPercent = 10;
/// The share of the default power limit, and of a link's rate, below which something is wrong.
constexpr double kLeastPower = 0.95;
constexpr double kLeastLink = 0.6;

/// Why clocks are low, as NVML numbers the reasons (nvmlClocksEventReasons). Those that are a
/// matter of course, such as idling, are left out.
struct ClockReason {
  std::uint64_t bit;
  std::string_view text;
  std::string_view remedy;
};
constexpr ClockReason kClockReasons[] = {
    {0x02, "clocks set by an administrator", "give them free with 'nvidia-smi -rac' and '-rgc'"},
    {0x08, "slowed down by hardware",
     "look for heat and power with 'nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER'"},
    {0x20, "slowed down by heat (software)", "cool the GPU: fans, filters, room"},
    {0x40, "slowed down by heat (hardware)", "cool the GPU: fans, filters, room"},
    {0x80, "slowed down by the power supply", "check the supply and the cables of the GPU"}};

std::string title(const GpuFacts& gpu) { return "GPU " + gpu.index; }

Finding judge_identity(const GpuFacts& gpu, const BuildInfo& build) {
  Finding finding{.name = title(gpu), .found = gpu.name};
  if (gpu.memory_bytes) finding.found += ", " + format_bytes(*gpu.memory_bytes);
  if (gpu.capability) finding.found += ", compute capability " + capability_name(*gpu.capability);
  if (!gpu.driver.empty()) finding.found += ", driver " + gpu.driver;
  if (gpu.divided) finding.found += ", divided by MIG: figures are of the whole GPU";
  if (!has_cuda(build)) {
    worsen(finding, Verdict::kWarn,
           "this program was built without CUDA and will not use it: build it with 'cmake --preset "
           "cuda-release' and 'cmake --build --preset cuda-release'");
  } else if (gpu.capability) {
    const std::string problem =
        gpu_code_problem(gpu.name, *gpu.capability, build.gpu_architectures);
    if (!problem.empty()) worsen(finding, Verdict::kBad, problem);
  }
  return finding;
}

std::string processes_text(const GpuFacts& gpu) {
  constexpr std::size_t kMost = 4;
  std::string text;
  for (std::size_t i = 0; i < gpu.processes.size(); ++i) {
    if (i == kMost) return text + " and " + std::to_string(gpu.processes.size() - kMost) + " more";
    const GpuProcess& process = gpu.processes[i];
    text += (i == 0 ? "" : ", ") + process.name + " (process " + process.pid + ", " +
            process.memory + ")";
  }
  return text;
}

Finding judge_use(const GpuFacts& gpu) {
  Finding finding{.name = title(gpu) + " use"};
  const std::size_t used = gpu.used_bytes.value_or(0);
  finding.found = gpu.used_bytes ? format_bytes(used) + " in use" : "memory in use unknown";
  if (gpu.busy_percent) finding.found += ", computing " + std::to_string(*gpu.busy_percent) + " %";
  if (!gpu.processes.empty()) finding.found += ", by " + processes_text(gpu);
  const bool computes = gpu.busy_percent.value_or(0) > kBusyPercent;
  if (!gpu.processes.empty() || used > kFreeGpuBytes || computes) {
    worsen(
        finding, Verdict::kWarn,
        "others use this GPU: a run plans for what they leave of its memory and shares its time; "
        "end them, or choose another GPU with CUDA_VISIBLE_DEVICES");
  }
  if (gpu.compute_mode == "Prohibited") {
    worsen(finding, Verdict::kBad,
           "its compute mode forbids programs: 'nvidia-smi -c DEFAULT' as root allows them");
  }
  if (gpu.compute_mode == "Exclusive_Process" && !gpu.processes.empty()) {
    worsen(finding, Verdict::kBad,
           "its compute mode allows one program, and one is there: end it, or 'nvidia-smi -c "
           "DEFAULT' as root");
  }
  return finding;
}

Finding judge_health(const GpuFacts& gpu) {
  Finding finding{.name = title(gpu) + " clock"};
  std::string text;
  const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  for (const ClockReason& reason : kClockReasons) {
    if ((gpu.clock_reasons.value_or(0) & reason.bit) == 0) continue;
    add(std::string(reason.text));
    worsen(finding, Verdict::kWarn, std::string(reason.remedy));
  }
  if (!gpu.clock_reasons) add("reasons of low clocks unknown");
  if (text.empty()) text = "nothing slows it down";
  if (gpu.power_limit_w) add(fmt::format("power limit {:.0f} W", *gpu.power_limit_w));
  if (gpu.power_limit_w && gpu.default_power_limit_w &&
      *gpu.power_limit_w < kLeastPower * *gpu.default_power_limit_w) {
    add(fmt::format("by default {:.0f} W", *gpu.default_power_limit_w));
    worsen(finding, Verdict::kWarn,
           fmt::format("matrix products run slower under this limit: 'nvidia-smi -i {} -pl {:.0f}' "
                       "as root raises it",
                       gpu.index, *gpu.default_power_limit_w));
  }
  if (gpu.memory_errors.value_or(0) > 0) {
    add(std::to_string(*gpu.memory_errors) + " memory errors that could not be corrected");
    worsen(finding, Verdict::kBad,
           "results may be wrong: reset the GPU or restart the machine, and have it replaced if "
           "errors come again");
  }
  finding.found = text;
  return finding;
}

Finding judge_connection(const GpuFacts& gpu, const CoreBits& cores) {
  Finding finding{.name = title(gpu) + " slot"};
  if (gpu.most_generation) finding.found = "PCIe " + std::to_string(*gpu.most_generation);
  if (gpu.link_width) {
    finding.found += (finding.found.empty() ? "" : ", ") + std::to_string(*gpu.link_width) +
                     " of " + std::to_string(gpu.most_width.value_or(*gpu.link_width)) + " lanes";
  }
  if (finding.found.empty()) finding.found = "PCIe unknown";
  if (gpu.link_width && gpu.most_width && *gpu.link_width < *gpu.most_width) {
    worsen(finding, Verdict::kWarn,
           "weights stream at a part of the rate: put the GPU firmly into a slot that has all "
           "lanes, and check risers and the BIOS");
  }
  if (gpu.numa_node >= 0) finding.found += ", NUMA node " + std::to_string(gpu.numa_node);
  if (gpu.near.any() && cores.any() && (gpu.near & cores).none()) {
    worsen(finding, Verdict::kWarn,
           fmt::format("this process may not run on the cores of that node, so copies cross the "
                       "machine: 'numactl --cpunodebind={}', or leave cores to strata (mpirun "
                       "--bind-to none)",
                       gpu.numa_node));
  }
  return finding;
}

/// Returns whether the program can use a GPU, as far as it is known.
bool is_usable(const GpuFacts& gpu, const GpuContext& context) {
  if (context.devices.empty() || gpu.pci_bus_id.empty()) return true;
  return std::ranges::any_of(context.devices, [&](const DeviceInfo& device) {
    return short_bus_id(device.pci_bus_id) == gpu.pci_bus_id;
  });
}

/// Judges whether the program has GPUs at all.
Finding judge_presence(const GpuSurvey& survey, const GpuContext& context) {
  Finding finding{.name = "GPUs"};
  const std::size_t usable = context.devices.size();
  finding.found = fmt::format("{} of {} can be used", usable, std::max(survey.gpus.size(), usable));
  if (!survey.problem.empty()) finding.found += "; nvidia-smi: " + survey.problem;
  if (!has_cuda(context.build)) {
    if (survey.gpus.empty())
      finding.found = "none, and this program was built without CUDA";
    else
      finding.found = fmt::format("{}; this program was built without CUDA", survey.gpus.size());
    return finding;  // each GPU has the remedy
  }
  if (usable == 0 && !survey.gpus.empty() && !context.visible.empty()) {
    finding.found += ", CUDA_VISIBLE_DEVICES=" + context.visible;
  }
  if (usable == 0) {
    worsen(finding, Verdict::kBad,
           survey.gpus.empty()
               ? "install NVIDIA's driver for CUDA 12.8 (570) or later, start containers with GPUs "
                 "(--gpus all, --nv), ask the batch system for GPUs; or set run.backend = \"cpu\""
               : "CUDA sees none of the GPUs: check CUDA_VISIBLE_DEVICES and /dev/nvidia*, and "
                 "install a driver for CUDA 12.8 (570) or later");
  } else if (!survey.problem.empty()) {
    worsen(finding, Verdict::kWarn,
           "who uses the GPUs and how fast they may run is unknown: put the nvidia-smi of the "
           "driver into PATH, or into the container (NVIDIA_DRIVER_CAPABILITIES=compute,utility)");
  }
  return finding;
}

}  // namespace

bool has_cuda(const BuildInfo& build) {
  return build.backends.find("cuda") != std::string_view::npos;
}

std::vector<Finding> judge_gpus(const GpuSurvey& survey, const GpuContext& context) {
  std::vector<Finding> findings{judge_presence(survey, context)};
  for (const GpuFacts& gpu : survey.gpus) {
    if (!is_usable(gpu, context)) continue;
    findings.push_back(judge_identity(gpu, context.build));
    findings.push_back(judge_use(gpu));
    findings.push_back(judge_health(gpu));
    findings.push_back(judge_connection(gpu, context.cores));
  }
  return findings;
}

std::vector<Finding> judge_links(std::span<const LinkRates> links) {
  std::vector<Finding> findings;
  for (const LinkRates& link : links) {
    Finding& finding =
        findings.emplace_back(Finding{.name = "link of device " + std::to_string(link.device)});
    if (!link.problem.empty()) {
      finding.found = "could not be measured";
      worsen(finding, Verdict::kBad, link.problem);
      continue;
    }
    const double usual = link_gbs_of_device(link.gpu);
    finding.found =
        fmt::format("{:.1f} GB/s in, {:.1f} out, {:.1f} each way at once; usual are {:.1f}",
                    link.in_gbs, link.out_gbs, link.both_gbs, usual);
    if (link.both_gbs >= kLeastLink * usual) continue;
    worsen(
        finding, Verdict::kWarn,
        "streaming will be slow: look at lanes and generation of its slot, at what else uses the "
        "link, and at the NUMA node of the memory (numactl)");
  }
  return findings;
}

}  // namespace strata
