// Finds out which backend a choice of the config or of an option stands for on this machine.
// Sessions start with it, and the doctor says what they would find.
#pragma once

#include <string_view>

#include "strata/base/dtype.h"
#include "strata/config/config.h"
#include "strata/ops/backend.h"

namespace strata {

/// Returns the backend that is chosen; of "auto" that of GPUs if there is one and it has the dtype:
/// f64 exists on the cpu only.
[[nodiscard]] BackendKind backend_of(BackendChoice choice, DType dtype);

/// What decides whether it is a fault that a run goes to the CPU.
struct CpuInstead {
  bool built_for_gpus = false;  ///< the program has the CUDA backend
  bool under_slurm = false;     ///< in a job, which was to have a GPU
};
/// Returns what a program knows of itself and where it runs.
[[nodiscard]] CpuInstead cpu_instead_here();
/// Says, for a choice of "auto" that became the cpu backend, that no GPU was found where a program
/// that was built for them looked for one. `option` is what chose it. Throws ConfigError in a job
/// of SLURM, whose hours would be spent on the CPU.
void say_cpu_instead(const CpuInstead& where, std::string_view option);

/// Throws ConfigError if these products of run.products are not for this device: codes in e4m3 are
/// multiplied by GPUs of compute capability 9.0, and by the cpu backend. `remedy` ends the message.
void require_products(Products products, const DeviceInfo& device,
                      std::string_view remedy = "set it to \"bf16\"");

/// Throws ConfigError that begins with `option`, by which the backend was chosen, if this program
/// was built without it. "auto" never chooses one that it lacks.
void require_built(BackendChoice choice, std::string_view option);

}  // namespace strata
