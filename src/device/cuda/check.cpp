// Words the messages of failed CUDA calls, and clears errors that the next launch would report
// again.

#include "src/device/cuda/check.h"

#include <string_view>

#include "strata/base/error.h"
#include "strata/base/log.h"

namespace strata::cuda {
namespace {

std::string describe(cudaError_t code) {
  return std::string(cudaGetErrorName(code)) + " (" + std::to_string(static_cast<int>(code)) +
         "), " + cudaGetErrorString(code);
}

/// Returns the part of a path that lies within this tree: where the tree lay when it was compiled
/// tells nobody anything.
std::string_view within_tree(std::string_view file) {
  for (const std::string_view room : {"src/device/", "kernels/cuda/", "tests/"}) {
    const std::size_t at = file.rfind(room);
    if (at != file.npos) return file.substr(at);
  }
  return file;
}

std::string message(const CallSite& site, const std::string& what) {
  return std::string(site.call) + " failed: " + what + ", at " +
         std::string(within_tree(site.file)) + ":" + std::to_string(site.line);
}

}  // namespace

void throw_call_failed(const CallSite& site, const std::string& what) {
  throw BackendError(message(site, what));
}

void check(cudaError_t code, const CallSite& site) {
  if (code == cudaSuccess) return;
  // Errors that do not destroy the context stay readable by cudaGetLastError: take this one away,
  // so that the next launch does not report it again.
  cudaGetLastError();
  throw_call_failed(site, describe(code));
}

void check(CUresult code, const CallSite& site) {
  if (code == CUDA_SUCCESS) return;
  // Driver codes have the numbers of the runtime's, so the runtime can name them.
  throw_call_failed(site, describe(static_cast<cudaError_t>(code)));
}

void check_in_destructor(cudaError_t code, const CallSite& site) noexcept {
  if (code == cudaSuccess || code == cudaErrorCudartUnloading) return;
  try {
    cudaGetLastError();
    log::warn("{}", message(site, describe(code)));
  } catch (...) {  // logging itself failed: nothing is left to tell it to
  }
}

}  // namespace strata::cuda
