// Reads facts and judges them, one part of the machine after the other.

#include "strata/doctor/examine_machine.h"

#include <algorithm>
#include <cmath>

#include "doctor/judge.h"
#include "doctor/measure_rates.h"
#include "doctor/nvidia_smi.h"
#include "doctor/read_folder.h"
#include "doctor/read_host.h"
#include "doctor/read_job.h"
#include "strata/base/log.h"
#include "strata/comm/ranks.h"
#include "strata/ops/backend.h"

namespace strata {

namespace {

Finding program_of(const BuildInfo& build) {
  return {.name = "program",
          .found = fmt::format("strata {}; {}; backends {}, GPU code {}, MPI {}, cuDNN {}",
                               version_text(build), build.compiler, build.backends,
                               build.gpu_architectures, build.mpi, build.cudnn)};
}

void append(std::vector<Finding>& findings, const std::vector<Finding>& more) {
  findings.insert(findings.end(), more.begin(), more.end());
}

/// Returns the memory of the GPUs that the program can use.
std::size_t gpu_bytes(const std::vector<DeviceInfo>& devices) {
  std::size_t bytes = 0;
  for (const DeviceInfo& device : devices) bytes += device.memory_bytes;
  return bytes;
}

/// Returns the threads that a run would have.
int threads_of(const HostFacts& host) {
  const double granted = std::min(std::ceil(host.quota), 4096.0);
  return std::max(1, std::min(static_cast<int>(host.cores.count()), static_cast<int>(granted)));
}

std::size_t free_bytes(const HostMemory& memory) {
  const std::size_t available = memory.available_bytes.value_or(0);
  return memory.group ? std::min(available, memory.group->free_bytes) : available;
}

}  // namespace

MachineSources this_machine(Files& files) {
  MachineSources sources{.files = &files,
                         .environment = environment_of_process,
                         .lockable_bytes = lockable_bytes(),
                         .build = build_info(),
                         .mpi = mpi_library(),
                         .nccl = "libnccl.so.2"};
  for (int i = 0; i < cuda_device_count(); ++i) {
    if (const auto device = cuda_device_info(i)) sources.devices.push_back(*device);
  }
  return sources;
}

std::vector<Finding> examine_machine(const MachineSources& sources) {
  const HostFacts host = read_host(sources.root, sources.lockable_bytes);
  const JobFacts job = read_job(sources);
  const GpuSurvey survey = ask_nvidia_smi(sources.environment, sources.root, sources.answer_s);
  std::vector<Finding> findings{program_of(sources.build)};
  append(findings,
         judge_gpus(survey, {.build = sources.build,
                             .devices = sources.devices,
                             .visible = sources.environment("CUDA_VISIBLE_DEVICES").value_or(""),
                             .cores = host.cores}));
  append(findings, judge_host(host, gpu_bytes(sources.devices), job.launched_ranks));
  if (sources.measure) {
    const std::string gpu = sources.devices.empty() ? "" : sources.devices.front().name;
    append(findings, {judge_rates(measure_host(threads_of(host), free_bytes(host.memory)), gpu)});
    append(findings, judge_links(measure_links(sources.devices)));
  }
  append(findings,
         {judge_folder(read_folder(*sources.files, sources.folder, sources.probe), sources.saves)});
  append(findings, judge_job(job, host, sources.devices.size(), sources.build));
  return findings;
}

}  // namespace strata
