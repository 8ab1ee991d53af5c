// Chooses by what this process sees; backend_choice.h is the contract.

#include "strata/run/backend_choice.h"

#include <string>

#include "strata/base/error.h"
#include "strata/base/version.h"

namespace strata {

BackendKind backend_of(BackendChoice choice, DType dtype) {
  switch (choice) {
    case BackendChoice::kCpu: return BackendKind::kCpu;
    case BackendChoice::kCuda: return BackendKind::kCuda;
    case BackendChoice::kAuto: break;
  }
  return cuda_available() && dtype != DType::kF64 ? BackendKind::kCuda : BackendKind::kCpu;
}

void require_built(BackendChoice choice, std::string_view option) {
  const bool built = build_info().backends.find("cuda") != std::string_view::npos;
  if (choice != BackendChoice::kCuda || built) return;
  throw ConfigError(
      std::string(option) +
      ": this program was built without the CUDA backend; take \"cpu\" or \"auto\", or "
      "build it with 'cmake --preset cuda-release' and 'cmake --build --preset "
      "cuda-release'");
}

}  // namespace strata
