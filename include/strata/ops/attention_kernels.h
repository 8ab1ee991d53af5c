// Which kernels a backend takes for attention, in the words of the config.
#pragma once

#include <cstdint>

namespace strata {

/// Which kernels compute attention on CUDA.
enum class AttentionKernels : std::uint8_t {
  kAuto,      ///< the fastest own kernels that take the device and the shape
  kPortable,  ///< the own kernels that run on every device
  kCudnn,     ///< the library cuDNN, for comparison
};

}  // namespace strata
