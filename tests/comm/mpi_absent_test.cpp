// What a program that was built without MPI says; compiled into test_comm only there.
#include "strata/base/error.h"
#include "strata/comm/ranks.h"
#include "support/catch.h"

namespace strata {

TEST_CASE("a program without MPI says how to build it") {
  REQUIRE_THROWS_AS(make_mpi_ranks(), BackendError);
  REQUIRE_THROWS_WITH(make_mpi_ranks(), ContainsSubstring("-DSTRATA_MPI=ON"));
  CHECK(mpi_library().empty());
}

}  // namespace strata
