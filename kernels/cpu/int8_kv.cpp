// This file keeps keys and values as int8 on the CPU: it adds those of new tokens to a cache,
// brings those of prompts back, and has single tokens attend. CpuKernels calls all three through
// operators.h. A row that the cache does not have, and a segment that is not one query, throw
// ShapeError.

#include <limits>
#include <vector>

#include "kernels/cpu/attention_segments.h"
#include "kernels/cpu/attention_single.h"
#include "kernels/cpu/int8_rows.h"
#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

void execute(const Context& context, const AppendInt8Kv& op) {
  const auto* rows = op.rows.as<std::int32_t>();
  const std::int64_t heads = op.k.shape[1];
  const std::int64_t width = op.k.shape[2];
  with_compute_type(op.k.dtype, [&]<Compute X>(X) {
    const auto append = [&](const ConstTensorView& from, const TensorView& levels,
                            const TensorView& scales, std::int64_t n) {
      const X* x = Rows<const X>(from)[n];
      std::int8_t* q = Rows<std::int8_t>(levels)[rows[n]];
      float* scale = Rows<float>(scales)[rows[n]];
      for (std::int64_t head = 0; head < heads; ++head) {
        scale[head] = quantize_row(x + head * width, width, q + head * width);
      }
    };
    context.pool.parallel_for(op.k.rows(), grain_for(8 * heads * width),
                              [&](std::int64_t begin, std::int64_t end) {
                                for (std::int64_t n = begin; n < end; ++n) {
                                  check_index(op.kName, "rows", n, rows[n], op.cache.k.rows());
                                  append(op.k, op.cache.k, op.cache.k_scale, n);
                                  append(op.v, op.cache.v, op.cache.v_scale, n);
                                }
                              });
  });
}

void execute(const Context& context, const DequantizeKv& op) {
  constexpr std::int64_t kAnyQueries = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> rows;  // that some query sees
  for (const Segment& s :
       read_segments(op.kName, {.table = op.segments}, kAnyQueries, op.k.rows())) {
    for (std::int64_t j = 0; j < s.visible(s.q_length - 1); ++j) rows.push_back(s.k_begin + j);
  }
  const std::int64_t heads = op.k.shape[1];
  const std::int64_t width = op.k.shape[2];
  with_compute_type(op.k.dtype, [&]<Compute X>(X) {
    const auto bring = [&](const ConstTensorView& levels, const ConstTensorView& scales,
                           const TensorView& to, std::int64_t row) {
      const std::int8_t* q = Rows<const std::int8_t>(levels)[row];
      const float* scale = Rows<const float>(scales)[row];
      X* x = Rows<X>(to)[row];
      for (std::int64_t head = 0; head < heads; ++head) {
        dequantize_row(q + head * width, scale[head], width, x + head * width);
      }
    };
    context.pool.parallel_for(static_cast<std::int64_t>(rows.size()), grain_for(2 * heads * width),
                              [&](std::int64_t begin, std::int64_t end) {
                                for (std::int64_t i = begin; i < end; ++i) {
                                  const std::int64_t row = rows[static_cast<std::size_t>(i)];
                                  bring(op.cache.k, op.cache.k_scale, op.k, row);
                                  bring(op.cache.v, op.cache.v_scale, op.v, row);
                                }
                              });
  });
}

void execute(const Context& context, const AttendInt8Kv& op) {
  const std::vector<Segment> segments =
      read_segments(op.kName, {.table = op.segments}, op.q.rows(), op.cache.k.rows(), op.window);
  const auto count = static_cast<std::int64_t>(segments.size());
  for (std::int64_t i = 0; i < op.q.rows(); ++i) {
    if (i < count && segments[static_cast<std::size_t>(i)].q_begin == i &&
        segments[static_cast<std::size_t>(i)].q_length == 1) {
      continue;
    }
    throw ShapeError(std::string(op.kName) + ": segment " + std::to_string(i) +
                     " is not of query " + std::to_string(i) + " alone");
  }
  attend_single_queries(context, op, segments);
}

}  // namespace strata::cpu
