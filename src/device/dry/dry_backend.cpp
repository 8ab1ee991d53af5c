// Puts the dry backend together: operators and a device that run nothing. Predictions make it on
// any machine, since it needs no GPU and no memory.

#include "device/dry/dry_device.h"
#include "device/dry/dry_kernels.h"
#include "strata/ops/backend.h"

namespace strata {

Backend make_dry_backend(const BackendOptions& options) {
  Backend backend;
  backend.pool = std::make_shared<ThreadPool>(1);
  backend.device = make_dry_device(options.device);
  backend.kernels = make_dry_kernels();
  return backend;
}

}  // namespace strata
