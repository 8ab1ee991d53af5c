// This file rounds rows to int8 with a scale each, and back, also from e4m3, on the CPU; CpuKernels
// calls both through operators.h.

#include "kernels/cpu/int8_rows.h"
#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

namespace {

template <class Code, Compute X>
void dequantize(const Context& context, const DequantizeRows& op) {
  const Rows<const Code> q(op.q);
  const auto* scales = op.scale.as<float>();
  const Rows<X> x(op.x);
  const std::int64_t width = op.x.shape[1];
  context.pool.parallel_for(op.x.rows(), grain_for(width),
                            [&](std::int64_t begin, std::int64_t end) {
                              for (std::int64_t n = begin; n < end; ++n) {
                                dequantize_row(q[n], scales[n], width, x[n]);
                              }
                            });
}

}  // namespace

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
    if (op.q.dtype == DType::kE4M3) {
      dequantize<E4M3, X>(context, op);
    } else {
      dequantize<std::int8_t, X>(context, op);
    }
  });
}

}  // namespace strata::cpu
