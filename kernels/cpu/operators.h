// This file declares the operators of the CPU backend as plain functions, for CpuKernels and for
// tests that choose the instruction set. They run to completion in the calling thread and the
// pool's. Each output element is computed by one thread in an order that depends on nothing but the
// shapes, so results do not depend on the number of threads. Operators must have passed check();
// indices in tensors (ids, targets, positions, segments) are checked here, and one that is out of
// range throws ShapeError.

#pragma once

#include "kernels/cpu/simd/simd.h"
#include "strata/base/thread_pool.h"
#include "strata/ops/kernels.h"

namespace strata::cpu {

/// What every CPU kernel is given: the threads that it may use and the variants of the inner loops
/// for this processor.
struct Context {
  ThreadPool& pool;
  const SimdKernels& simd;
};

/// Runs the operator to its end. Throws ShapeError for indices that are out of range.
#define STRATA_DECLARE(Operator) void execute(const Context& context, const Operator& op);
STRATA_FOR_EACH_OPERATOR(STRATA_DECLARE)
#undef STRATA_DECLARE

}  // namespace strata::cpu
