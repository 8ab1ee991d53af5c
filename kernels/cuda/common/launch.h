// What launch.cuh asks of a .cpp file.

#pragma once

namespace strata::cuda {

/// Returns whether this program's kernels wait for the one before by themselves on the current
/// device, so that chained ones may start early. The answer is that of the first call.
[[nodiscard]] bool kernels_overlap();
/// Likewise, whether blocks of this program's kernels form clusters (cluster.cuh).
[[nodiscard]] bool has_clusters();

}  // namespace strata::cuda
