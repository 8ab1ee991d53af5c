// Looks up driver entry points by name and version, and wraps those that lanes call.

#include "src/device/cuda/driver.h"

#include <string>
#include <vector>

#include "src/device/cuda/check.h"
#include "strata/base/error.h"

namespace strata::cuda {
namespace {

/// `version` is the CUDA version whose form of the function is meant: 1000 * major + 10 * minor.
template <class Function>
void find(Function*& function, const char* name, unsigned version) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  STRATA_CUDA_CHECK(
      cudaGetDriverEntryPointByVersion(name, &address, version, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess || address == nullptr) {
    throw BackendError(std::string("the NVIDIA driver has no ") + name +
                       "; install a driver for CUDA 12.8 or later");
  }
  function = reinterpret_cast<Function*>(address);
}

CUdeviceptr device_address(std::uint32_t* counter) {
  return reinterpret_cast<CUdeviceptr>(counter);
}

}  // namespace

Driver load_driver() {
  Driver driver;
  find(driver.stream_write_value32, "cuStreamWriteValue32", 12000);
  find(driver.stream_wait_value32, "cuStreamWaitValue32", 12000);
  find(driver.func_get_module, "cuFuncGetModule", 11000);
  find(driver.module_get_function_count, "cuModuleGetFunctionCount", 12040);
  find(driver.module_enumerate_functions, "cuModuleEnumerateFunctions", 12040);
  find(driver.func_load, "cuFuncLoad", 12040);
  find(driver.tensor_map_encode_tiled, "cuTensorMapEncodeTiled", 12000);
  return driver;
}

void load_module_of(const Driver& driver, const void* kernel) {
  cudaFunction_t function = nullptr;
  STRATA_CUDA_CHECK(cudaGetFuncBySymbol(&function, kernel));
  CUmodule module = nullptr;
  STRATA_CUDA_CHECK(driver.func_get_module(&module, function));
  unsigned count = 0;
  STRATA_CUDA_CHECK(driver.module_get_function_count(&count, module));
  std::vector<CUfunction> functions(count);
  STRATA_CUDA_CHECK(driver.module_enumerate_functions(functions.data(), count, module));
  for (CUfunction each : functions) STRATA_CUDA_CHECK(driver.func_load(each));
}

void write_counter(const Driver& driver, cudaStream_t stream, std::uint32_t* counter,
                   std::uint32_t value) {
  STRATA_CUDA_CHECK(driver.stream_write_value32(stream, device_address(counter), value,
                                                CU_STREAM_WRITE_VALUE_DEFAULT));
}

void wait_counter(const Driver& driver, cudaStream_t stream, std::uint32_t* counter,
                  std::uint32_t value) {
  STRATA_CUDA_CHECK(
      driver.stream_wait_value32(stream, device_address(counter), value, CU_STREAM_WAIT_VALUE_GEQ));
}

}  // namespace strata::cuda
