// Reads from the environment what started this process, without calling MPI: a process that is
// alone must not initialise it, and several that nothing connects must not train side by side. Only
// make_world_ranks and `doctor` ask; the environment is an argument, so tests give their own.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace strata {

/// Returns the value of an environment variable, if it is set.
using Environment = std::function<std::optional<std::string>(const char* name)>;

/// The Environment that this process has.
[[nodiscard]] std::optional<std::string> environment_of_process(const char* name);

/// What started this process, as far as its environment tells.
struct Launch {
  bool mpi = false;          ///< true if MPI can connect the ranks
  std::optional<int> ranks;  ///< how many ranks there are, if the launcher says so
};

/// Reads the variables of mpirun (Open MPI, MPICH, Intel MPI) and srun (PMI-2, PMIx). Throws
/// ConfigError with the remedy if SLURM started several tasks that no MPI can connect.
[[nodiscard]] Launch detect_launch(const Environment& environment);

/// Returns the number that a launcher which started several processes has given to this one, as it
/// stands in the environment; nothing if none did.
[[nodiscard]] std::optional<std::string> launched_rank(const Environment& environment);

/// Returns how many ranks Open MPI's mpirun or Intel's or MPICH's says it has started on this host;
/// SLURM and others do not say. Throws ConfigError if that is no number.
[[nodiscard]] std::optional<int> launched_on_host(const Environment& environment);

}  // namespace strata
