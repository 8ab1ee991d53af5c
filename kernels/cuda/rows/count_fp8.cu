// This file counts what rounding to e4m3 has lost, on CUDA; CudaKernels launches it through
// operators.h. It takes matrices of any width and alignment, in bf16 or f32, and gives the counts
// that strata/ops/fp8.h defines.
//
// Shapes: x [N, C], q [N, C] or [C, N] e4m3, rows may be strided; counts [4] f64.
// Tile: x and q have a kernel each, with a thread for W columns and a grid of at most kMostBlocks
// blocks, which go through the rows: so few of them add to the same counts. W is 16 bytes.
// Numerics: bitwise equal to the CPU but for the bits of NaNs. Blocks add to f64 by atomics, but
// whole numbers, whose sums are exact: their order does not matter. Naive version: kernels/cpu.

#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/grid.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/magnitudes.cuh"

namespace strata::cuda {
namespace {

constexpr std::int64_t kMostBlocks = 1024;

/// Adds a number of each thread of the block to a count.
__device__ void add_of_block(unsigned own, Sum<unsigned>* scratch, double* count) {
  const unsigned sum = block_sum(own, scratch);
  if (threadIdx.x == 0 && sum > 0) atomicAdd(count, static_cast<double>(sum));
}

template <class T, int W>
__global__ void count_numbers(Rows<const T> x, Extent extent, double* counts) {
  __shared__ Largest of_warps[kMostWarps];
  __shared__ Sum<unsigned> sums[kMostWarps];
  unsigned largest = 0;
  unsigned numbers = 0;
  for_each_piece<W>(extent, [&](std::int64_t n, std::int64_t c) {
    float values[W];
    load(x.row(n) + c, values);
#pragma unroll
    for (const float value : values) {
      largest = max(largest, __float_as_uint(value) & kMagnitude);
      // By its bits: a subnormal number is not 0.
      numbers += (__float_as_uint(value) & kMagnitude) != 0 ? 1 : 0;
    }
  });
  const Largest of_block = block_reduce_once(Largest{largest}, Largest{0}, of_warps, TakeLarger{});
  if (threadIdx.x == 0) {
    // Bits of f64 that are not negative are in the order of the numbers, with NaNs on top.
    const double value = static_cast<double>(__uint_as_float(of_block.bits));
    atomicMax(reinterpret_cast<unsigned long long*>(counts + CountFp8::kLargest),
              static_cast<unsigned long long>(__double_as_longlong(value)));
  }
  add_of_block(numbers, sums, counts + CountFp8::kNumbers);
}

template <int W>
__global__ void count_codes(Rows<const std::uint8_t> q, Extent extent, double* counts) {
  constexpr unsigned kCode = 0x7f;  // without the sign
  constexpr unsigned kSmallestNormal = 0x08;
  __shared__ Sum<unsigned> sums[kMostWarps];
  unsigned codes = 0;
  unsigned subnormal = 0;
  for_each_piece<W>(extent, [&](std::int64_t n, std::int64_t c) {
    const auto piece = load_raw<std::uint8_t, W>(q.row(n) + c);
#pragma unroll
    for (const std::uint8_t byte : piece.values) {
      const unsigned code = byte & kCode;
      codes += code != 0 ? 1 : 0;
      subnormal += code != 0 && code < kSmallestNormal ? 1 : 0;
    }
  });
  add_of_block(codes, sums, counts + CountFp8::kCodes);
  add_of_block(subnormal, sums, counts + CountFp8::kSubnormal);
}

/// Returns the launch over a matrix in which each block goes through many rows.
Launch over_matrix(cudaStream_t stream, Extent extent, int w) {
  Launch launch = over(CountFp8::kName, stream, extent, w);
  const std::int64_t rows = std::max<std::int64_t>(kMostBlocks / std::max(launch.grid.x, 1u), 1);
  launch.grid.y = static_cast<unsigned>(std::min<std::int64_t>(launch.grid.y, rows));
  return launch;
}

}  // namespace

void enqueue(const Context& context, const CountFp8& op) {
  auto* const counts = data<double>(op.counts);
  const Extent numbers{op.x.rows(), op.x.shape[1]};
  const bool wide = is_wide(op.x.dtype, numbers.columns, {op.x});
  with_dtype_and_width(op.kName, op.x.dtype, wide, [&]<class T, int W>() {
    launch(over_matrix(context.stream, numbers, W), count_numbers<T, W>, Rows<const T>(op.x),
           numbers, counts);
  });
  const Extent codes{op.q.rows(), op.q.shape[1]};
  const auto count = [&]<int W>() {
    launch(over_matrix(context.stream, codes, W), count_codes<W>, Rows<const std::uint8_t>(op.q),
           codes, counts);
  };
  if (is_wide(op.q.dtype, codes.columns, {op.q})) {
    count.template operator()<kWide<std::uint8_t>>();
  } else {
    count.template operator()<1>();
  }
}

const void* count_fp8_module() { return reinterpret_cast<const void*>(&count_codes<1>); }

}  // namespace strata::cuda
