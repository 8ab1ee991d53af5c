// Entry points of the CUDA driver that the runtime does not offer, looked up at run time so that
// the program starts on machines without a driver. Lanes use the stream memory operations, kernels
// the module loading and the tensor maps.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace strata::cuda {

/// Entry points of the driver, found at run time so that the program starts without libcuda.
struct Driver {
  CUresult (*stream_write_value32)(CUstream, CUdeviceptr, cuuint32_t, unsigned int) = nullptr;
  CUresult (*stream_wait_value32)(CUstream, CUdeviceptr, cuuint32_t, unsigned int) = nullptr;
  CUresult (*func_get_module)(CUmodule*, CUfunction) = nullptr;
  CUresult (*module_get_function_count)(unsigned int*, CUmodule) = nullptr;
  CUresult (*module_enumerate_functions)(CUfunction*, unsigned int, CUmodule) = nullptr;
  CUresult (*func_load)(CUfunction) = nullptr;
  decltype(&cuTensorMapEncodeTiled) tensor_map_encode_tiled = nullptr;
};

/// Throws BackendError naming the entry point that the installed driver lacks.
[[nodiscard]] Driver load_driver();

/// Loads every kernel of the module (the source file) that holds `kernel`, so that its first launch
/// allocates nothing.
void load_module_of(const Driver& driver, const void* kernel);

/// Writes `value` to `counter`, a device pointer, once everything before it on `stream` is done and
/// its memory writes can be seen.
void write_counter(const Driver& driver, cudaStream_t stream, std::uint32_t* counter,
                   std::uint32_t value);
/// Holds `stream` until `counter` has reached `value` (modulo 2^32).
void wait_counter(const Driver& driver, cudaStream_t stream, std::uint32_t* counter,
                  std::uint32_t value);

}  // namespace strata::cuda
