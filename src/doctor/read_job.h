// Reads what starts ranks and connects them: the launcher's variables, mpirun, MPI and NCCL.

#pragma once

#include "doctor/machine_facts.h"
#include "strata/doctor/examine_machine.h"

namespace strata {

/// Blocks until mpirun has said its version, 5 s at most; initialises neither MPI nor NCCL. Throws
/// nothing.
[[nodiscard]] JobFacts read_job(const MachineSources& sources);

}  // namespace strata
