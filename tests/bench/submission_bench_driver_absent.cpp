#include "bench/submission_bench.h"

namespace strata::bench {

std::vector<SubmissionCase> driver_cases() { return {}; }

}  // namespace strata::bench
