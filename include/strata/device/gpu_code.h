// Tells whether the code of a build runs on a GPU, for whoever knows of a GPU without having it as
// a device. A build without the cuda backend can answer, too.
#pragma once

#include <string>
#include <string_view>

namespace strata {

/// Returns why a build for these architectures, in CMake's words ("80-real 90a-real"), does not run
/// on a GPU of this compute capability, 10 * major + minor, with the remedy; or nothing if it does.
[[nodiscard]] std::string gpu_code_problem(std::string_view gpu, int capability,
                                           std::string_view architectures);

/// Returns a compute capability as people write it: "8.9".
[[nodiscard]] std::string capability_name(int capability);

}  // namespace strata
