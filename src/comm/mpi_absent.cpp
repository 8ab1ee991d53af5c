// What a program that was built without MPI has in place of mpi_ranks.cpp: the same functions: one
// says how to build the other program, and one that there is no library.
#include "strata/base/error.h"
#include "strata/comm/ranks.h"

namespace strata {

std::unique_ptr<Ranks> make_mpi_ranks() {
  throw BackendError(
      "this program was built without MPI. Install an MPI with its headers (Debian and Ubuntu: "
      "libopenmpi-dev openmpi-bin), configure with -DSTRATA_MPI=ON and build again");
}

std::string mpi_library() { return {}; }

}  // namespace strata
