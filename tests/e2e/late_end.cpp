// Loaded into a program (LD_PRELOAD), it lets one rank of a job end later than the others:
// - LATE_RANK: on this rank of mpirun or srun;
// - LATE_UNTIL: it lives on after MPI_Finalize until there is this file (e2e/hold.h).

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "e2e/hold.h"

// NOLINTNEXTLINE(readability-identifier-naming): the function of MPI that it stands in for.
extern "C" int MPI_Finalize() {
  const int code = reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "MPI_Finalize"))();
  const char* const own = std::getenv("PMIX_RANK");
  const char* const late = std::getenv("LATE_RANK");
  const char* const until = std::getenv("LATE_UNTIL");
  if (own != nullptr && late != nullptr && until != nullptr && std::string(own) == late) {
    strata::test::hold(until);
  }
  return code;
}
