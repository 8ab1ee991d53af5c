// This file runs the parts of a fused linear layer on the CPU, one after the other, where starting
// one takes next to nothing; CpuKernels calls it through operators.h.

#include "kernels/cpu/operators.h"

namespace strata::cpu {

void execute(const Context& context, const FusedLinear& op) {
  for_each_part(op, [&](const auto& part) { execute(context, part); });
}

}  // namespace strata::cpu
