// Tests that a build without MPI says how to get it.

#include "strata/base/error.h"
#include "strata/comm/communicator.h"
#include "support/catch.h"

namespace strata {

TEST_CASE("a program without MPI says how to build it") {
  REQUIRE_THROWS_AS(make_mpi_communicator(), BackendError);
  REQUIRE_THROWS_WITH(make_mpi_communicator(), ContainsSubstring("-DSTRATA_MPI=ON"));
}

}  // namespace strata
