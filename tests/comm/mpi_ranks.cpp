// A program that ctest starts by mpirun on several ranks, because only a job of MPI shows what its
// ranks do. Its exit code is the answer.
//   mpi_ranks checks RANKS   every check of checks.h; exit code 1 if one fails
//   mpi_ranks world RANKS    what make_world_ranks() takes this job for
//   mpi_ranks abort          the last rank aborts with code 7 while the others wait for it
//   mpi_ranks throw          the last rank lets an exception end its group
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <string_view>

#include "comm/checks.h"
#include "strata/base/error.h"

namespace {

using namespace strata;

/// Runs a table of checks; takes the job down if one fails.
template <class Check, class... Where>
void run_table(std::span<const Check> checks, Ranks& ranks, const Where&... where) {
  for (const Check& check : checks) {
    bool failed = false;
    try {
      check.run(ranks, where...);
    } catch (const std::exception& error) {
      failed = true;
      std::fprintf(stderr, "FAILED: %s: %s\n", check.name, error.what());
    }
    // After a failure ranks may be at different places: only taking all of them down is safe.
    if (failed) ranks.abort(1);
    if (ranks.rank() == 0) std::printf("passed: %s\n", check.name);
  }
}

int run_checks(int wanted) {
  const auto ranks = make_mpi_ranks();
  if (ranks->size() != wanted) {
    std::fprintf(stderr, "MPI connects %d ranks, not %d\n", ranks->size(), wanted);
    ranks->abort(1);
  }
  run_table(ranks_checks(), *ranks);
  run_table(collectives_checks(), *ranks, cpu_machine());
  run_table(rank_order_checks(), *ranks);
  return 0;
}

int check_world(int ranks) {
  const auto world = make_world_ranks();
  const std::string_view wanted = ranks > 1 ? "mpi" : "self";
  return world->name() == wanted && world->size() == ranks ? 0 : 1;
}

int fail_on_last_rank(bool by_abort) {
  const auto ranks = make_mpi_ranks();
  ranks->barrier(Channel::kSubmit);
  if (ranks->rank() == ranks->size() - 1) {
    if (by_abort) ranks->abort(7);
    throw BackendError("the last rank has had enough");
  }
  ranks->barrier(Channel::kSubmit);
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
