// This file adds keys and values of new tokens to a cache on the CPU. CpuKernels calls it through
// operators.h. A row that the cache does not have throws ShapeError.

#include <algorithm>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

void execute(const Context& context, const AppendKv& op) {
  with_compute_type(op.k.dtype, [&]<Compute X>(X) {
    const auto* rows = op.rows.as<std::int32_t>();
    const Rows<const X> k(op.k);
    const Rows<const X> v(op.v);
    const Rows<X> cache_k(op.cache_k);
    const Rows<X> cache_v(op.cache_v);
    const std::int64_t width = op.k.shape.row_elements();
    context.pool.parallel_for(op.k.rows(), grain_for(2 * width),
                              [&](std::int64_t begin, std::int64_t end) {
                                for (std::int64_t n = begin; n < end; ++n) {
                                  check_index(op.kName, "rows", n, rows[n], op.cache_k.rows());
                                  std::copy_n(k[n], width, cache_k[rows[n]]);
                                  std::copy_n(v[n], width, cache_v[rows[n]]);
                                }
                              });
  });
}

}  // namespace strata::cpu
