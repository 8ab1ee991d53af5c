// This file runs the parts of fused operators on the CPU, one after the other, where starting one
// takes next to nothing; CpuKernels calls it through operators.h.

#include "kernels/cpu/operators.h"

namespace strata::cpu {

void execute(const Context& context, const FusedAppend& op) {
  for_each_part(op, [&](const auto& part) { execute(context, part); });
}

void execute(const Context& context, const FusedAttend& op) {
  for_each_part(op, [&](const auto& part) { execute(context, part); });
}

void execute(const Context& context, const FusedLinear& op) {
  for_each_part(op, [&](const auto& part) { execute(context, part); });
}

}  // namespace strata::cpu
