#pragma once

#include <functional>
#include <optional>
#include <string>

namespace strata {

/// Value of an environment variable, if it is set.
using Environment = std::function<std::optional<std::string>(const char* name)>;

/// What started this process, as far as its environment tells.
struct Launch {
  bool mpi = false;          ///< MPI can connect the ranks
  std::optional<int> ranks;  ///< how many there are, if the launcher says so
};

/// Reads the variables of mpirun (Open MPI, MPICH, Intel MPI) and srun (PMI-2, PMIx). Throws
/// BackendError with the remedy if SLURM started several tasks that no MPI can connect.
[[nodiscard]] Launch detect_launch(const Environment& environment);

}  // namespace strata
