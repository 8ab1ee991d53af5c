// Chooses the group of ranks that the launcher of this process has started, and refuses a job whose
// ranks would not find each other. Commands call it once, at their beginning.
#include <cstdlib>

#include "comm/launcher.h"
#include "strata/base/error.h"
#include "strata/comm/ranks.h"

namespace strata {

namespace {

std::optional<std::string> own_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

}  // namespace

std::optional<int> launched_on_host() { return launched_on_host(own_environment); }

std::unique_ptr<Ranks> make_world_ranks() {
  const Launch launch = detect_launch(own_environment);
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
