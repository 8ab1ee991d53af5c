// The check around every call into CUDA: a failure becomes a BackendError that names the call, its
// code and its place, or in destructors a line of the log. Libraries on top of CUDA add an overload
// for their status type.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

namespace strata::cuda {

/// Where a call stands and how it is written, for error messages.
struct CallSite {
  const char* call;
  const char* file;
  int line;
};

/// Throws BackendError: "CALL failed: NAME (CODE), TEXT, at FILE:LINE".
[[noreturn]] void throw_call_failed(const CallSite& site, const std::string& what);

/// Throws BackendError if a call of the runtime, or a driver entry point, did not succeed. Other
/// libraries add an overload for their status type in this namespace.
void check(cudaError_t code, const CallSite& site);
void check(CUresult code, const CallSite& site);

/// Does what check does, for destructors: it logs instead of throwing, and is silent once the
/// runtime has shut down.
void check_in_destructor(cudaError_t code, const CallSite& site) noexcept;

}  // namespace strata::cuda

/// Every call into CUDA stands inside this.
#define STRATA_CUDA_CHECK(call) \
  ::strata::cuda::check((call), ::strata::cuda::CallSite{#call, __FILE__, __LINE__})

/// The same for destructors, which do not throw.
#define STRATA_CUDA_CHECK_IN_DESTRUCTOR(call) \
  ::strata::cuda::check_in_destructor((call), ::strata::cuda::CallSite{#call, __FILE__, __LINE__})
