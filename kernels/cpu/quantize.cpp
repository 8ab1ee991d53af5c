// This file rounds rows to int8 with a scale each, and back, on the CPU; CpuKernels calls both
// through operators.h.

#include "kernels/cpu/int8_rows.h"
#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

void execute(const Context& context, const QuantizeRows& op) {
  with_compute_type(op.x.dtype, [&]<Compute X>(X) {
    const Rows<const X> x(op.x);
    const Rows<std::int8_t> q(op.q);
    auto* scales = op.scale.as<float>();
    const std::int64_t width = op.x.shape[1];
    context.pool.parallel_for(op.x.rows(), grain_for(4 * width),
                              [&](std::int64_t begin, std::int64_t end) {
                                for (std::int64_t n = begin; n < end; ++n) {
                                  scales[n] = quantize_row(x[n], width, q[n]);
                                }
                              });
  });
}

void execute(const Context& context, const DequantizeRows& op) {
  with_compute_type(op.x.dtype, [&]<Compute X>(X) {
    const Rows<const std::int8_t> q(op.q);
    const auto* scales = op.scale.as<float>();
    const Rows<X> x(op.x);
    const std::int64_t width = op.x.shape[1];
    context.pool.parallel_for(op.x.rows(), grain_for(width),
                              [&](std::int64_t begin, std::int64_t end) {
                                for (std::int64_t n = begin; n < end; ++n) {
                                  dequantize_row(q[n], scales[n], width, x[n]);
                                }
                              });
  });
}

}  // namespace strata::cpu
