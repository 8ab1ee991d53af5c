// Asks the cuda backend whether its code runs on a GPU that is no device here.

#include "strata/device/gpu_code.h"

#include "src/device/cuda/architectures.h"

namespace strata {

std::string gpu_code_problem(std::string_view gpu, int capability, std::string_view architectures) {
  const bool runs =
      capability >= cuda::kLeastCapability && cuda::code_for(architectures, capability).has_value();
  return runs ? std::string() : cuda::refusal(gpu, capability, architectures);
}

std::string capability_name(int capability) { return cuda::capability_text(capability); }

}  // namespace strata
