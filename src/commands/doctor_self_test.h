// The self-test of `doctor`: gives it a folder of its own and the program that runs.
#pragma once

#include <filesystem>
#include <vector>

#include "strata/comm/ranks.h"
#include "strata/doctor/finding.h"

namespace strata {

/// Runs the self-test on the GPU if there is one, else on the CPU, with a new folder below `folder`
/// that is removed afterwards. All ranks call it; see self_test().
[[nodiscard]] std::vector<Finding> run_self_test(const std::filesystem::path& folder, Ranks& ranks);

}  // namespace strata
