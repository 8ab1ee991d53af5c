// Tests how the program is named, of a build made up here.

#include "strata/base/version.h"

#include "support/catch.h"

using namespace strata;

namespace {

constexpr BuildInfo kBuild{.version = "1.2.3",
                           .commit = "0123456789ab+changes",
                           .compiler = "GNU 12.2.0, Release",
                           .backends = "cpu, cuda",
                           .gpu_architectures = "80-real 90a-real",
                           .mpi = "3.1",
                           .cudnn = "none"};

}  // namespace

TEST_CASE("a log names the program by version and commit") {
  CHECK(version_text(kBuild) == "1.2.3 (0123456789ab+changes)");
}

TEST_CASE("what was built stands in lines of a word and its value") {
  CHECK(describe(kBuild, "Arrow 26.0.1") ==
        "strata 1.2.3\n"
        "commit             0123456789ab+changes\n"
        "compiler           GNU 12.2.0, Release\n"
        "backends           cpu, cuda\n"
        "GPU architectures  80-real 90a-real\n"
        "MPI                3.1\n"
        "cuDNN              none\n"
        "Parquet            Arrow 26.0.1");
}
