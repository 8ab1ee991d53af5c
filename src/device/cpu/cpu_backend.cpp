// Puts the cpu backend together: a pool, a device of host threads and the CPU operators. They serve
// as the host lane's operators too.

#include "device/cpu/cpu_device.h"
#include "strata/ops/backend.h"

namespace strata {

Backend make_cpu_backend(const BackendOptions& options) {
  Backend backend;
  backend.pool = std::make_shared<ThreadPool>(options.threads, options.cores);
  backend.device = make_cpu_device(options.device);
  backend.kernels = make_cpu_kernels(backend.pool);
  return backend;
}

}  // namespace strata
