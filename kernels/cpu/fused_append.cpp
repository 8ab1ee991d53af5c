// This file turns queries and keys and adds keys and values to a cache on the CPU, one after the
// other; CpuKernels calls it through operators.h.

#include "kernels/cpu/operators.h"

namespace strata::cpu {

void execute(const Context& context, const FusedAppend& op) {
  execute(context, op.rope);
  execute(context, op.append);
}

}  // namespace strata::cpu
