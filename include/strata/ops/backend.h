// What a backend is to the rest of the program: a device, its operators and the operators of its
// host lane. A session or a bench makes one by make_backend, the only function that knows backends
// by name, and owns it. Backends are linked in; a build that leaves one out has a twin that throws
// and says how to build it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "strata/base/thread_pool.h"
#include "strata/device/device.h"
#include "strata/ops/attention_kernels.h"
#include "strata/ops/kernels.h"

namespace strata {

enum class BackendKind : std::uint8_t {
  kCpu,
  kCuda,
  kDry,  ///< takes no memory and runs nothing: records what would be submitted
};
/// Returns "cpu", "cuda" or "dry".
[[nodiscard]] std::string_view name_of(BackendKind kind);

/// What make_backend needs to know; it takes what concerns its backend.
struct BackendOptions {
  DeviceOptions device;
  /// Threads for CPU kernels, the optimizer's included; 0 means one for each of `cores`, or for
  /// each usable core. The dry backend has one.
  int threads = 0;
  /// Cores for these threads, the host lane's first: it and the pool's workers are bound to them.
  /// If there are none, threads run where the system puts them.
  std::vector<int> cores{};
  AttentionKernels attention = AttentionKernels::kAuto;
  std::size_t matmul_workspace_bytes = std::size_t{32} << 20;  ///< cuBLASLt, allocated at start-up
};

/// A device with its operators, owned by whoever made it. `host_kernels` run on the kHost lane of
/// any backend (optimizer, sums); for cpu and dry they are the same object as `kernels`. Members
/// are destroyed bottom up, kernels before the device that they run on.
struct Backend {
  std::shared_ptr<ThreadPool> pool;  ///< shared by the backend and its CPU kernels
  std::unique_ptr<Device> device;
  std::unique_ptr<Kernels> host_kernels_owner;
  std::unique_ptr<Kernels> kernels;
  [[nodiscard]] Kernels& host_kernels() const {
    return host_kernels_owner ? *host_kernels_owner : *kernels;
  }
};

/// Makes the device and operators of a backend. Throws BackendError that says how to build it if
/// this program has no such backend, or that no device is there; OutOfMemory if what it allocates
/// does not fit.
[[nodiscard]] Backend make_backend(BackendKind kind, const BackendOptions& options);
/// Returns whether this program has the CUDA backend and a device is usable; never throws.
[[nodiscard]] bool cuda_available() noexcept;
/// Returns how many GPUs this process sees, 0 if cuda_available() is false; never throws.
[[nodiscard]] int cuda_device_count() noexcept;
/// Returns what is known of a GPU that this process sees (free_bytes is not), or nothing if there
/// is none; it takes no memory there and never throws.
[[nodiscard]] std::optional<DeviceInfo> cuda_device_info(int device_index = 0) noexcept;
/// Returns whether this program can run attention through cuDNN; it says nothing of devices.
[[nodiscard]] bool cudnn_available() noexcept;

// These are defined in src/device/cpu, src/device/cuda (or its absent twin) and src/device/dry.
// Only make_backend calls them.
[[nodiscard]] Backend make_cpu_backend(const BackendOptions& options);
[[nodiscard]] Backend make_cuda_backend(const BackendOptions& options);
[[nodiscard]] Backend make_dry_backend(const BackendOptions& options);
/// Makes the CPU operators, which run on any stream with a host thread (defined in kernels/cpu).
[[nodiscard]] std::unique_ptr<Kernels> make_cpu_kernels(std::shared_ptr<ThreadPool> pool);

}  // namespace strata
