// This file rounds rows and columns to e4m3 with a scale each, and transposes codes, on the CPU;
// CpuKernels calls all three through operators.h.

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/cpu/fp8_rows.h"
#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

namespace {

/// Columns that a task of a transposition goes through together: each row is then read a cache line
/// or more at a time.
constexpr std::int64_t kColumns = 64;

/// Rounds columns [begin, end) of x to rows of q.
template <Compute X>
void quantize_columns(const QuantizeFp8Columns& op, std::int64_t begin, std::int64_t end) {
  const Rows<const X> x(op.x);
  const Rows<E4M3> q(op.q);
  auto* scales = op.scale.as<float>();
  const std::int64_t rows = op.x.rows();
  for (std::int64_t first = begin; first < end; first += kColumns) {
    const std::int64_t last = std::min(first + kColumns, end);
    std::array<std::uint32_t, kColumns> largest{};
    for (std::int64_t n = 0; n < rows; ++n) {
      for (std::int64_t c = first; c < last; ++c) {
        auto& of_column = largest[static_cast<std::size_t>(c - first)];
        of_column = std::max(of_column, magnitude_bits(x[n][c]));
      }
    }
    for (std::int64_t c = first; c < last; ++c) {
      scales[c] = fp8_scale(largest[static_cast<std::size_t>(c - first)]);
    }
    for (std::int64_t n = 0; n < rows; ++n) {
      for (std::int64_t c = first; c < last; ++c) q[c][n] = fp8_code(x[n][c], scales[c]);
    }
  }
}

/// Returns the largest of scales, or NaN if one is.
float largest_of(const float* scales, std::int64_t count) {
  std::uint32_t largest = magnitude_bits(fp8_scale(0));
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, magnitude_bits(scales[i]));
  return std::bit_cast<float>(largest);
}

}  // namespace

void execute(const Context& context, const QuantizeFp8Rows& op) {
  with_compute_type(op.x.dtype, [&]<Compute X>(X) {
    const Rows<const X> x(op.x);
    const Rows<E4M3> q(op.q);
    auto* scales = op.scale.as<float>();
    const std::int64_t width = op.x.shape[1];
    context.pool.parallel_for(
        op.x.rows(), grain_for(4 * width), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t n = begin; n < end; ++n) {
            const X* row = x[n];
            scales[n] = quantize_fp8_row(width, [=](std::int64_t c) { return row[c]; }, q[n]);
          }
        });
  });
}

void execute(const Context& context, const QuantizeFp8Columns& op) {
  with_compute_type(op.x.dtype, [&]<Compute X>(X) {
    context.pool.parallel_for(op.x.shape[1], kColumns, [&](std::int64_t begin, std::int64_t end) {
      quantize_columns<X>(op, begin, end);
    });
  });
}

void execute(const Context& context, const TransposeFp8& op) {
  const Rows<const E4M3> w(op.w);
  const Rows<E4M3> t(op.t);
  const auto* scales = op.scale.as<float>();
  const std::int64_t rows = op.w.rows();
  const float largest = largest_of(scales, rows);
  std::fill_n(op.t_scale.as<float>(), op.w.shape[1], largest);
  context.pool.parallel_for(op.w.shape[1], kColumns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const float quotient = scales[r] / largest;
      for (std::int64_t c = begin; c < end; ++c) t[c][r] = E4M3(w[r][c] * quotient);
    }
  });
}

}  // namespace strata::cpu
