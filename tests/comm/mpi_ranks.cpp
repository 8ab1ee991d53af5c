// Runs on several ranks that mpirun starts, as a program, because ctest wants its exit code.
//   mpi_ranks checks RANKS   every check of communicator_checks.h; exit code 1 if one fails
//   mpi_ranks world RANKS    what make_world_communicator() takes this job for
//   mpi_ranks abort          the last rank aborts with code 7 while the others wait for it
//   mpi_ranks throw          the last rank lets an exception end its communicator

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "comm/communicator_checks.h"
#include "strata/base/error.h"

namespace {

using namespace strata;

int run_checks(int ranks) {
  const auto communicator = make_mpi_communicator();
  if (communicator->size() != ranks) {
    std::fprintf(stderr, "MPI connects %d ranks, not %d\n", communicator->size(), ranks);
    communicator->abort(1);
  }
  for (const CommunicatorCheck& check : communicator_checks()) {
    bool failed = false;
    try {
      check.run(*communicator);
    } catch (const std::exception& error) {
      failed = true;
      std::fprintf(stderr, "FAILED: %s: %s\n", check.name, error.what());
    }
    // Behind a failure ranks may be at different places: only taking all of them down is safe.
    if (failed) communicator->abort(1);
    if (communicator->rank() == 0) std::printf("passed: %s\n", check.name);
  }
  return 0;
}

int check_world(int ranks) {
  const auto world = make_world_communicator();
  const std::string_view wanted = ranks > 1 ? "mpi" : "self";
  return world->name() == wanted && world->size() == ranks ? 0 : 1;
}

int fail_on_last_rank(bool by_abort) {
  const auto communicator = make_mpi_communicator();
  communicator->barrier(Channel::kSubmit);
  if (communicator->rank() == communicator->size() - 1) {
    if (by_abort) communicator->abort(7);
    throw BackendError("the last rank has had enough");
  }
  communicator->barrier(Channel::kSubmit);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view mode = count > 1 ? arguments[1] : "";
  const int ranks = count > 2 ? std::stoi(arguments[2]) : 0;
  try {
    if (mode == "checks") return run_checks(ranks);
    if (mode == "world") return check_world(ranks);
    if (mode == "abort" || mode == "throw") return fail_on_last_rank(mode == "abort");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  std::fprintf(stderr, "the first argument is checks, world, abort or throw\n");
  return 2;
}
