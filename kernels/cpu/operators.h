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

void execute(const Context& context, const EmbeddingForward& op);
void execute(const Context& context, const EmbeddingBackward& op);
void execute(const Context& context, const RmsNormForward& op);
void execute(const Context& context, const RmsNormBackward& op);
void execute(const Context& context, const Rope& op);
void execute(const Context& context, const AttentionForward& op);
void execute(const Context& context, const AttentionBackward& op);
void execute(const Context& context, const SwigluForward& op);
void execute(const Context& context, const SwigluBackward& op);
void execute(const Context& context, const ResidualAdd& op);
void execute(const Context& context, const Accumulate& op);
void execute(const Context& context, const Cast& op);
void execute(const Context& context, const Fill& op);
void execute(const Context& context, const CrossEntropy& op);
void execute(const Context& context, const Matmul& op);
void execute(const Context& context, const SquaredNorm& op);
void execute(const Context& context, const CastSquaredNorm& op);
void execute(const Context& context, const AdamW& op);
void execute(const Context& context, const QuantizeRows& op);
void execute(const Context& context, const DequantizeRows& op);

}  // namespace strata::cpu
