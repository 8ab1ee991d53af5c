// Chooses by what this process sees; backend_choice.h is the contract.

#include "strata/run/backend_choice.h"

namespace strata {

BackendKind backend_of(BackendChoice choice, DType dtype) {
  switch (choice) {
    case BackendChoice::kCpu: return BackendKind::kCpu;
    case BackendChoice::kCuda: return BackendKind::kCuda;
    case BackendChoice::kAuto: break;
  }
  return cuda_available() && dtype != DType::kF64 ? BackendKind::kCuda : BackendKind::kCpu;
}

}  // namespace strata
