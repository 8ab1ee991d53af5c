// This file applies RoPE in place on the CPU: pair i of a head, x[i] and x[i + E/2] or x[2 i] and
// x[2 i + 1], is turned by the angle of (position, i), or back by it. CpuKernels calls it through
// operators.h. It computes in A and rounds once; a position outside of the tables throws
// ShapeError.

#include "kernels/cpu/operators.h"
#include "kernels/cpu/rope_pairs.h"
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
    const std::int64_t head_dim = op.x.shape[2];
    const std::int64_t pairs = op.cos.shape[1];
    const bool halves = op.pairs == RopePairs::kHalves;
    const RopePairPlaces places{
        .count = pairs, .step = halves ? 1 : 2, .to_second = halves ? pairs : 1};
    const A direction = op.direction == RopeDirection::kForward ? A{1} : A{-1};
    context.pool.parallel_for(
        op.x.rows(), grain_for(heads * pairs * 4), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t n = begin; n < end; ++n) {
            check_index(op.kName, "positions", n, positions[n], op.cos.rows());
            const A* cosine = cosines[positions[n]];
            const A* sine = sines[positions[n]];
            for (std::int64_t h = 0; h < heads; ++h) {
              turn_pairs(places, cosine, sine, direction, x[n] + h * head_dim);
            }
          }
        });
  });
}

}  // namespace strata::cpu
