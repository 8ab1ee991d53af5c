#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "strata/base/thread_pool.h"
#include "strata/device/device.h"
#include "strata/ops/kernels.h"

namespace strata {

enum class BackendKind : std::uint8_t {
  kCpu,
  kCuda,
  kDry,  ///< takes no memory and runs nothing: records what would be submitted
};
[[nodiscard]] std::string_view name_of(BackendKind kind);

/// Which kernels compute attention on CUDA.
enum class AttentionKernels : std::uint8_t {
  kAuto,      ///< the fastest of this program's own that take the device and the shape
  kPortable,  ///< of these the ones that run on every device
  kCudnn,     ///< the library's, for comparison
};

struct BackendOptions {
  DeviceOptions device;
  /// Threads for CPU kernels, the optimizer's included; 0: one per usable core.
  int threads = 0;
  /// One for each of these threads, the host lane's first; it and the pool's workers are bound to
  /// them. Empty: threads run where the system puts them.
  std::vector<int> cores{};
  AttentionKernels attention = AttentionKernels::kAuto;
  std::size_t matmul_workspace_bytes = std::size_t{32} << 20;  ///< cuBLASLt, allocated at start-up
};

/// A device with its operators. `host_kernels` run on the kHost lane of either backend (optimizer);
/// for cpu they are the same object as `kernels`. Members are destroyed bottom up.
struct Backend {
  std::shared_ptr<ThreadPool> pool;  ///< shared by both kernel sets, hence shared_ptr
  std::unique_ptr<Device> device;
  std::unique_ptr<Kernels> host_kernels_owner;
  std::unique_ptr<Kernels> kernels;
  [[nodiscard]] Kernels& host_kernels() const {
    return host_kernels_owner ? *host_kernels_owner : *kernels;
  }
};

/// The only place where a backend has a name. Throws BackendError that says how to build it if this
/// program has no such backend, or that no device is there.
[[nodiscard]] Backend make_backend(BackendKind kind, const BackendOptions& options);
/// True if this program has the CUDA backend and a device is usable; never throws.
[[nodiscard]] bool cuda_available() noexcept;
/// True if this program can run attention through cuDNN; says nothing of devices.
[[nodiscard]] bool cudnn_available() noexcept;

// One each in src/device/cpu, src/device/cuda (or its absent twin) and src/device/dry; called by
// make_backend only.
[[nodiscard]] Backend make_cpu_backend(const BackendOptions& options);
[[nodiscard]] Backend make_cuda_backend(const BackendOptions& options);
[[nodiscard]] Backend make_dry_backend(const BackendOptions& options);
/// CPU operators for any stream with a host thread (defined in kernels/cpu).
[[nodiscard]] std::unique_ptr<Kernels> make_cpu_kernels(std::shared_ptr<ThreadPool> pool);

}  // namespace strata
