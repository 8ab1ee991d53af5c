// Stands in for the driver's bare calls in a build without CUDA: there are none to compare with.

#include "bench/submission_bench.h"

namespace strata::bench {

std::vector<SubmissionCase> driver_cases() { return {}; }

}  // namespace strata::bench
