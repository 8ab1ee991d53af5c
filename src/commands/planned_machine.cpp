// What is known of a GPU by its name stands in for what a session would measure.

#include "commands/planned_machine.h"

#include <algorithm>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/device/gpu_models.h"
#include "strata/ops/backend.h"
#include "strata/plan/setup.h"

namespace strata {

BackendChoice planned_backend(const RunConfig& config) {
  return config.run.backend == BackendChoice::kCpu ? BackendChoice::kCpu : BackendChoice::kCuda;
}

DeviceInfo planned_device(BackendChoice backend, const std::string& gpu) {
  if (backend == BackendChoice::kCpu) {
    if (gpu.empty()) return {.backend = "cpu", .name = "cpu"};
    throw ConfigError("--gpu: run.backend is \"cpu\"; leave out one of them");
  }
  if (gpu.empty()) return cuda_device_info().value_or(DeviceInfo{.backend = "cuda", .name = {}});
  const GpuModel& model = gpu_named(gpu);
  return {.backend = "cuda",
          .name = std::string(model.cuda_names.front()),
          .memory_bytes = model.memory_bytes(),
          .peak_bf16_tflops = model.peak_tflops};
}

MachineMemory planned_machine(BackendChoice backend, DeviceInfo device) {
  const std::size_t overhead = estimated_device_overhead(backend);
  device.free_bytes = device.memory_bytes - std::min(device.memory_bytes, overhead);
  return {.device = std::move(device),
          .device_in_use = overhead,
          .host = {},
          .resident = estimated_host_overhead(backend)};
}

std::string device_text(const DeviceInfo& device) {
  if (device.name.empty() || device.memory_bytes == 0) return {};
  std::string text = "planned for " + device.name + ", " + format_bytes(device.memory_bytes);
  if (const GpuModel* model = gpu_of_device(device.name)) {
    text += fmt::format(", compute capability {}.{}, {} multiprocessors", model->capability / 10,
                        model->capability % 10, model->multiprocessors);
    if (model->pcie > 0) text += fmt::format(", PCIe {}", model->pcie);
  }
  return text + "\n";
}

}  // namespace strata
