// This file rounds rows and columns to e4m3 with a scale each, transposes codes, and counts what
// rounding has lost, on the CPU; CpuKernels calls all four through operators.h.

#include <algorithm>
#include <array>
#include <atomic>
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

/// Raises `to` to `value` at least.
void raise(std::atomic<std::uint32_t>& to, std::uint32_t value) {
  std::uint32_t before = to;
  while (before < value && !to.compare_exchange_weak(before, value)) {
  }
}

/// Adds to counts[kLargest] and counts[kNumbers].
template <Compute X>
void count_numbers(const Context& context, const ConstTensorView& numbers, double* counts) {
  const Rows<const X> x(numbers);
  const std::int64_t width = numbers.shape[1];
  std::atomic<std::uint32_t> largest = magnitude_bits(counts[CountFp8::kLargest]);
  std::atomic<std::int64_t> count = 0;
  context.pool.parallel_for(numbers.rows(), grain_for(width),
                            [&](std::int64_t begin, std::int64_t end) {
                              std::uint32_t own_largest = 0;
                              std::int64_t own = 0;
                              for (std::int64_t n = begin; n < end; ++n) {
                                for (std::int64_t c = 0; c < width; ++c) {
                                  own_largest = std::max(own_largest, magnitude_bits(x[n][c]));
                                  own += static_cast<Accumulator<X>>(x[n][c]) != 0 ? 1 : 0;
                                }
                              }
                              raise(largest, own_largest);
                              count += own;
                            });
  counts[CountFp8::kLargest] = static_cast<double>(std::bit_cast<float>(largest.load()));
  counts[CountFp8::kNumbers] += static_cast<double>(count.load());
}

/// Adds to counts[kCodes] and counts[kSubnormal].
void count_codes(const Context& context, const ConstTensorView& codes, double* counts) {
  constexpr unsigned kMagnitude = 0x7f;
  constexpr unsigned kSmallestNormal = 0x08;
  const Rows<const E4M3> q(codes);
  const std::int64_t width = codes.shape[1];
  std::atomic<std::int64_t> count = 0;
  std::atomic<std::int64_t> subnormal = 0;
  context.pool.parallel_for(
      codes.rows(), grain_for(width), [&](std::int64_t begin, std::int64_t end) {
        std::int64_t own = 0;
        std::int64_t own_subnormal = 0;
        for (std::int64_t n = begin; n < end; ++n) {
          for (std::int64_t c = 0; c < width; ++c) {
            const unsigned magnitude = q[n][c].bits & kMagnitude;
            own += magnitude != 0 ? 1 : 0;
            own_subnormal += magnitude != 0 && magnitude < kSmallestNormal ? 1 : 0;
          }
        }
        count += own;
        subnormal += own_subnormal;
      });
  counts[CountFp8::kCodes] += static_cast<double>(count.load());
  counts[CountFp8::kSubnormal] += static_cast<double>(subnormal.load());
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

void execute(const Context& context, const CountFp8& op) {
  auto* counts = op.counts.as<double>();
  with_compute_type(op.x.dtype, [&]<Compute X>(X) { count_numbers<X>(context, op.x, counts); });
  count_codes(context, op.q, counts);
}

}  // namespace strata::cpu
