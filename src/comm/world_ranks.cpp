// Chooses the group of ranks that the launcher of this process has started, and refuses a job whose
// ranks would not find each other. Commands call it once, at their beginning.
#include "strata/base/error.h"
#include "strata/comm/launcher.h"
#include "strata/comm/ranks.h"

namespace strata {

std::unique_ptr<Ranks> make_world_ranks() {
  const Launch launch = detect_launch(&environment_of_process);
  if (!launch.mpi) return make_self_ranks();
  std::unique_ptr<Ranks> world = make_mpi_ranks();
  if (launch.ranks && world->size() != *launch.ranks) {
    throw ConfigError("the launcher started " + std::to_string(*launch.ranks) +
                      " ranks, but MPI connected " + std::to_string(world->size()) +
                      ": the launcher belongs to another MPI than the one this program was built " +
                      "with. Use that MPI's mpirun, or `srun --mpi=` with a type that it supports");
  }
  return world;
}

}  // namespace strata
