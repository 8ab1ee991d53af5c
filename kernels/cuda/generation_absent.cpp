// Generation runs on the cpu backend alone so far; this is what CUDA says when it is asked.

#include <string>

#include "kernels/cuda/operators.h"
#include "strata/base/error.h"

namespace strata::cuda {

namespace {

[[noreturn]] void refuse(std::string_view name) {
  throw BackendError("operator " + std::string(name) +
                     ": generation does not run on the cuda backend yet; use --backend cpu");
}

}  // namespace

void enqueue(const Context& /*context*/, const AppendKv& op) { refuse(op.kName); }
void enqueue(const Context& /*context*/, const SampleTokens& op) { refuse(op.kName); }

}  // namespace strata::cuda
