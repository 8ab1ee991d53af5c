#include <cstdlib>

#include "comm/launcher.h"
#include "strata/base/error.h"
#include "strata/comm/communicator.h"

namespace strata {

std::unique_ptr<Communicator> make_world_communicator() {
  const Launch launch = detect_launch([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  });
  if (!launch.mpi) return make_self_communicator();
  std::unique_ptr<Communicator> world = make_mpi_communicator();
  if (launch.ranks && world->size() != *launch.ranks) {
    throw BackendError(
        "the launcher started " + std::to_string(*launch.ranks) + " ranks, but MPI connected " +
        std::to_string(world->size()) +
        ": the launcher belongs to another MPI than the one this program was built " +
        "with. Use that MPI's mpirun, or `srun --mpi=` with a type that it supports");
  }
  return world;
}

}  // namespace strata
