#include "strata/base/error.h"
#include "strata/comm/communicator.h"

namespace strata {

std::unique_ptr<Communicator> make_mpi_communicator() {
  throw BackendError(
      "this program was built without MPI. Install an MPI with its headers (Debian and Ubuntu: "
      "libopenmpi-dev openmpi-bin), configure with -DSTRATA_MPI=ON and build again");
}

}  // namespace strata
