// Stands in for the CUDA backend in builds without it: says how to build it, and that there is
// none.

#include "strata/base/error.h"
#include "strata/ops/backend.h"

namespace strata {

Backend make_cuda_backend(const BackendOptions&) {
  throw BackendError(
      "this program was built without the CUDA backend; build it with 'cmake --preset "
      "cuda-release' "
      "and 'cmake --build --preset cuda-release', or set run.backend to \"cpu\"");
}

bool cuda_available() noexcept { return false; }
int cuda_device_count() noexcept { return 0; }
std::optional<DeviceInfo> cuda_device_info(int) noexcept { return std::nullopt; }
bool cudnn_available() noexcept { return false; }

}  // namespace strata
