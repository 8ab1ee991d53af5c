// Which GPUs the code of a build runs on, and what thread blocks may take there. All functions are
// pure, so that tests need neither a GPU nor CUDA; what this build has is
// build_info().gpu_architectures.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace strata::cuda {

/// The first compute capability that kernels are written for, as 10 * major + minor; so all of
/// this file counts.
inline constexpr int kLeastCapability = 80;

/// What thread blocks may take on GPUs of a compute capability (CUDA programming guide, technical
/// specifications of compute capabilities).
struct BlockLimits {
  int capability;
  std::size_t shared_bytes;    ///< dynamic and static shared memory of a block, at most
  int multiprocessor_threads;  ///< threads that are resident at a time
  bool clusters;               ///< blocks may form clusters
};
inline constexpr BlockLimits kBlockLimits[] = {{.capability = 80,
                                                .shared_bytes = 163 * 1024,
                                                .multiprocessor_threads = 2048,
                                                .clusters = false},
                                               {.capability = 86,
                                                .shared_bytes = 99 * 1024,
                                                .multiprocessor_threads = 1536,
                                                .clusters = false},
                                               {.capability = 89,
                                                .shared_bytes = 99 * 1024,
                                                .multiprocessor_threads = 1536,
                                                .clusters = false},
                                               {.capability = 90,
                                                .shared_bytes = 227 * 1024,
                                                .multiprocessor_threads = 2048,
                                                .clusters = true},
                                               {.capability = 100,
                                                .shared_bytes = 227 * 1024,
                                                .multiprocessor_threads = 2048,
                                                .clusters = true},
                                               {.capability = 120,
                                                .shared_bytes = 99 * 1024,
                                                .multiprocessor_threads = 1536,
                                                .clusters = true}};

/// What the driver takes of a build for a GPU.
struct GpuCode {
  int architecture;  ///< the kernels were compiled for it
  bool ptx;          ///< the driver still has to compile them for the GPU
};

/// Returns what the driver takes of a build with these architectures, in CMake's words with spaces
/// or semicolons between them ("80-real 90a-real 100-virtual"), for a GPU; nothing if it cannot run
/// any of it. Code runs on its own generation from its own capability on (with a letter on that
/// capability alone), PTX on all later ones, and code is preferred.
[[nodiscard]] std::optional<GpuCode> code_for(std::string_view architectures, int capability);

/// Returns what to tell the user of a GPU that code_for() has nothing for: its capability, what the
/// build has, and the commands that build for it.
[[nodiscard]] std::string refusal(std::string_view gpu, int capability,
                                  std::string_view architectures);

/// Returns a capability as people write it: "8.9".
[[nodiscard]] std::string capability_text(int capability);

}  // namespace strata::cuda
