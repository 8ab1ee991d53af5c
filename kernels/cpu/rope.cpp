// This file applies RoPE in place on the CPU: (x[i], x[i + D/2]) is turned by the angle of
// (position, i), or back by it. CpuKernels calls it through operators.h. It computes in A and
// rounds once; a position outside of the tables throws ShapeError.

#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

void execute(const Context& context, const Rope& op) {
  with_compute_type(op.x.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const Rows<X> x(op.x);
    const auto* positions = op.positions.as<std::int32_t>();
    const Rows<const A> cosines(op.cos);
    const Rows<const A> sines(op.sin);
    const std::int64_t heads = op.x.shape[1];
    const std::int64_t half = op.x.shape[2] / 2;
    const A direction = op.direction == RopeDirection::kForward ? A{1} : A{-1};
    context.pool.parallel_for(
        op.x.rows(), grain_for(heads * half * 4), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t n = begin; n < end; ++n) {
            check_index(op.kName, "positions", n, positions[n], op.cos.rows());
            const A* cosine = cosines[positions[n]];
            const A* sine = sines[positions[n]];
            for (std::int64_t h = 0; h < heads; ++h) {
              X* first = x[n] + h * 2 * half;
              X* second = first + half;
              for (std::int64_t i = 0; i < half; ++i) {
                const A a = static_cast<A>(first[i]);
                const A b = static_cast<A>(second[i]);
                const A s = direction * sine[i];
                first[i] = X(a * cosine[i] - b * s);
                second[i] = X(b * cosine[i] + a * s);
              }
            }
          }
        });
  });
}

}  // namespace strata::cpu
