// This file says which variants of the inner loops this processor can run, by asking the processor.
// CpuKernels takes the last, fastest one, and tests compare them all.

#include "kernels/cpu/simd/simd.h"

namespace strata::cpu {

std::vector<const SimdKernels*> usable_simd() {
  std::vector<const SimdKernels*> usable{&kPortable};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) usable.push_back(&kAvx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("fma")) {
    usable.push_back(&kAvx512);
  }
#endif
  return usable;
}

}  // namespace strata::cpu
