// Chooses a backend by what this process sees; backend_choice.h is the contract.

#include "strata/launch/backend_choice.h"

#include <cstdlib>
#include <string>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/version.h"
#include "strata/device/device.h"
#include "strata/ops/backend.h"

namespace strata {

BackendKind backend_of(BackendChoice choice, DType dtype) {
  switch (choice) {
    case BackendChoice::kCpu: return BackendKind::kCpu;
    case BackendChoice::kCuda: return BackendKind::kCuda;
    case BackendChoice::kAuto: break;
  }
  return cuda_available() && dtype != DType::kF64 ? BackendKind::kCuda : BackendKind::kCpu;
}

CpuInstead cpu_instead_here() {
  return {.built_for_gpus = build_info().backends.find("cuda") != std::string_view::npos,
          .under_slurm = std::getenv("SLURM_JOB_ID") != nullptr};
}

void say_cpu_instead(const CpuInstead& where, std::string_view option) {
  if (!where.built_for_gpus) return;
  const std::string name(option);
  const std::string found =
      "no GPU was found, though this program is built for them (strata doctor says why)";
  if (where.under_slurm) {
    throw ConfigError(name + ": " + found +
                      "; ask SLURM for one, as by --gpus-per-node=1, or say " + name +
                      "=cpu to compute on the CPU");
  }
  log::warn("{}: {}. EVERYTHING RUNS ON THE CPU, many times slower; say {}=cpu if that is meant",
            name, found, name);
}

void require_products(Products products, const DeviceInfo& device, std::string_view remedy) {
  constexpr int kHopper = 90;
  const bool other = device.backend == "cuda" && device.capability != kHopper;
  if (products == Products::kPlain || !other) return;
  throw ConfigError("run.products: products in e4m3 need a GPU of compute capability 9.0, and " +
                    device.name + " has " + std::to_string(device.capability / 10) + "." +
                    std::to_string(device.capability % 10) + "; " + std::string(remedy));
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
