// This file has the embedding on the CPU: a gather, and its transpose as sums over sorted
// positions, both times a scale. CpuKernels calls both through operators.h. A table row adds its
// tokens in ascending position whatever the number of threads; ids and positions that point nowhere
// throw ShapeError.

#include <algorithm>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

namespace {

/// Returns the scale as the operators have it.
template <Compute X>
Accumulator<X> scale_of(double scale) {
  return static_cast<Accumulator<X>>(rounded<X>(scale));
}

}  // namespace

void execute(const Context& context, const EmbeddingForward& op) {
  with_compute_type(op.y.dtype, [&]<Compute X>(X) {
    const auto* ids = op.ids.as<std::int32_t>();
    const Rows<const X> table(op.table);
    const Rows<X> y(op.y);
    const std::int64_t width = op.y.shape[1];
    const auto scale = scale_of<X>(op.scale);
    context.pool.parallel_for(op.y.rows(), grain_for(width),
                              [&](std::int64_t begin, std::int64_t end) {
                                for (std::int64_t n = begin; n < end; ++n) {
                                  check_index(op.kName, "ids", n, ids[n], op.table.rows());
                                  const X* row = table[ids[n]];
                                  if (scale == 1) {
                                    std::copy_n(row, width, y[n]);
                                    continue;
                                  }
                                  for (std::int64_t c = 0; c < width; ++c) {
                                    y[n][c] = X(static_cast<Accumulator<X>>(row[c]) * scale);
                                  }
                                }
                              });
  });
}

void execute(const Context& context, const EmbeddingBackward& op) {
  with_compute_type(op.dy.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const auto* ids = op.ids.as<std::int32_t>();
    const auto* order = op.order.as<std::int32_t>();
    const Rows<const X> dy(op.dy);
    const Rows<A> d_table(op.d_table);
    const std::int64_t tokens = op.dy.rows();
    const std::int64_t width = op.dy.shape[1];
    const A scale = scale_of<X>(op.scale);
    const auto id_at = [&](std::int64_t i) {
      check_index(op.kName, "order", i, order[i], tokens);
      check_index(op.kName, "ids", order[i], ids[order[i]], op.d_table.rows());
      return ids[order[i]];
    };
    // A chunk of the sorted positions does the runs of equal ids that begin in it, to their end.
    context.pool.parallel_for(tokens, grain_for(width), [&](std::int64_t begin, std::int64_t end) {
      std::int64_t i = begin;
      while (i > 0 && i < end && id_at(i) == id_at(i - 1)) ++i;
      while (i < end) {
        const std::int32_t id = id_at(i);
        A* sum = d_table[id];
        for (; i < tokens && id_at(i) == id; ++i) {
          const X* row = dy[order[i]];
          for (std::int64_t c = 0; c < width; ++c) sum[c] += static_cast<A>(row[c]) * scale;
        }
      }
    });
  });
}

}  // namespace strata::cpu
