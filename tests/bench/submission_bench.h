// What submission_bench measures: a list of calls that each submit one small piece of work. One
// list is strata's own, submission_bench_driver gives the driver's, to compare with.

#pragma once

#include <functional>
#include <string>
#include <vector>

namespace strata::bench {

/// One call of `submit` is one submission; `synchronize` waits for all of them.
struct SubmissionCase {
  std::string name;
  std::function<void()> submit;
  std::function<void()> synchronize;
};

/// Bare calls of the driver that submissions end in; none without CUDA.
[[nodiscard]] std::vector<SubmissionCase> driver_cases();

}  // namespace strata::bench
