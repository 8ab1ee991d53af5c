// Asks the CUDA runtime for the device and NVML for this process's memory. NVML is opened at run
// time, and what is used of its interface is declared here, so its header need not be installed.

#include "src/device/cuda/gpu_info.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/device/cuda/check.h"
#include "strata/device/gpu_models.h"

namespace strata::cuda {
namespace {

// What is used of NVML's C interface, which the toolkit's header need not be installed for.
constexpr int kNvmlSuccess = 0;
constexpr unsigned long long kNvmlUnknown = ~0ull;
struct NvmlProcess {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};
using NvmlInit = int();
using NvmlHandleByPciBusId = int(const char*, void**);
using NvmlComputeProcesses = int(void*, unsigned*, NvmlProcess*);

template <class Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

std::optional<std::size_t> process_bytes(void* library, void* device) {
  auto* list = symbol<NvmlComputeProcesses>(library, "nvmlDeviceGetComputeRunningProcesses_v3");
  if (list == nullptr) return std::nullopt;
  constexpr unsigned kMostProcesses = 256;
  std::vector<NvmlProcess> processes(kMostProcesses);
  unsigned count = kMostProcesses;
  if (list(device, &count, processes.data()) != kNvmlSuccess) return std::nullopt;
  processes.resize(count);
  const auto own = std::ranges::find(processes, static_cast<unsigned>(getpid()), &NvmlProcess::pid);
  if (own == processes.end() || own->used_bytes == kNvmlUnknown) return std::nullopt;
  return static_cast<std::size_t>(own->used_bytes);
}

/// Returns the PCI address as the system writes it, "0000:1B:00.0".
std::string pci_bus_id(int device_index) {
  std::array<char, 32> text{};
  STRATA_CUDA_CHECK(
      cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device_index));
  return text.data();
}

std::string hexadecimal(const cudaUUID_t& uuid) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : uuid.bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += kDigits[value / 16];
    text += kDigits[value % 16];
  }
  return text;
}

}  // namespace

int compute_capability(int device_index) {
  int major = 0;
  int minor = 0;
  STRATA_CUDA_CHECK(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device_index));
  STRATA_CUDA_CHECK(
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device_index));
  return 10 * major + minor;
}

DeviceInfo gpu_properties(int device_index) {
  cudaDeviceProp properties{};
  STRATA_CUDA_CHECK(cudaGetDeviceProperties(&properties, device_index));
  const GpuModel* model = gpu_of_device(properties.name);
  int driver = 0;
  int runtime = 0;
  STRATA_CUDA_CHECK(cudaDriverGetVersion(&driver));
  STRATA_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  return {.backend = "cuda",
          .name = properties.name,
          .memory_bytes = properties.totalGlobalMem,
          .peak_bf16_tflops = model == nullptr ? 0 : model->peak_tflops,
          .pci_bus_id = pci_bus_id(device_index),
          .uuid = hexadecimal(properties.uuid),
          .driver_version = driver,
          .runtime_version = runtime,
          .capability = compute_capability(device_index)};
}

DeviceInfo gpu_info(int device_index) {
  DeviceInfo info = gpu_properties(device_index);
  std::size_t total = 0;
  STRATA_CUDA_CHECK(cudaMemGetInfo(&info.free_bytes, &total));
  return info;
}

MemoryMeter::MemoryMeter(int device_index) {
  library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library_ != nullptr) open(device_index);
}

void MemoryMeter::open(int device_index) {
  auto* init = symbol<NvmlInit>(library_, "nvmlInit_v2");
  auto* find = symbol<NvmlHandleByPciBusId>(library_, "nvmlDeviceGetHandleByPciBusId_v2");
  if (init == nullptr || find == nullptr || init() != kNvmlSuccess) return;
  if (find(pci_bus_id(device_index).c_str(), &device_) != kNvmlSuccess) device_ = nullptr;
}

MemoryMeter::~MemoryMeter() {
  if (library_ != nullptr) dlclose(library_);
}

std::size_t MemoryMeter::bytes_in_use() const {
  if (device_ != nullptr) {
    if (const auto bytes = process_bytes(library_, device_)) return *bytes;
  }
  std::size_t free = 0;
  std::size_t total = 0;
  STRATA_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return total - free;
}

}  // namespace strata::cuda
