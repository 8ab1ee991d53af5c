// This file computes the forward of RMSNorm on CUDA, with and without a residual; CudaKernels
// launches it through operators.h. It takes rows of any width and alignment, in bf16 or f32, and
// gives the same bits in every run.
//
// s = x + residual, y = s * rstd * (weight + offset) with rstd = 1 / sqrt(mean(s^2) + eps).
// y8 and y_scale: y in e4m3, where it is asked for.
//
// Shapes: x, residual, sum, y, y8 [N, C], rows may be strided; weight [C]; rstd, y_scale [N] f32.
// Tile: one block a row, which it reads once, all of it before it adds anything up, and keeps in
// registers as it came. Rows that are not aligned or very wide are kept in shared memory.
// Numerics: f32; the sum over a row is a fixed tree.
// Measured on one H200, 2026-11-21, bf16, TB/s (a copy moves 4.2): 3.8 at C = 4096, with a residual
// 3.9; 3.9 and 4.0 at C = 8192.
// Naive version: kernels/cpu.

#include "kernels/cuda/common/chain.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/fp8_divisor.cuh"
#include "kernels/cuda/rows/magnitudes.cuh"
#include "kernels/cuda/rows/norm_pieces.cuh"

namespace strata::cuda {
namespace {

constexpr int kThreads = kNormThreads;
/// How many pieces of 16 bytes a thread keeps in registers, at most: enough for rows of 16384 in
/// bf16.
constexpr int kMostPieces = 8;
/// Returns how many blocks a multiprocessor has, by the registers of a thread.
constexpr int blocks_with(int pieces) { return pieces == 2 ? 6 : 16 / pieces; }

template <class T>
struct Arguments {
  Rows<const T> x;
  Rows<const T> residual;  ///< may be absent
  const T* weight;
  Rows<T> sum;            ///< present exactly if residual is
  Rows<T> y;              ///< may be absent
  Rows<std::uint8_t> y8;  ///< may be absent
  float* y_scale;
  float* rstd;
  int columns;
  float eps;
  float offset;  ///< of weights
};

/// Adds the residual, if there is one, to W columns from c on, and writes the sum; `squares` takes
/// the squares of what it rounded to.
template <class T, int W, class Piece>
__device__ __forceinline__ Piece add_columns(const Arguments<T>& p, std::int64_t n, int c,
                                             const Piece& x, const Piece& residual,
                                             float& squares) {
  float s[W];
  unpack(x, s);
  Piece rounded = x;
  if (p.residual.data != nullptr) {
    float added[W];
    unpack(residual, added);
#pragma unroll
    for (int i = 0; i < W; ++i) s[i] += added[i];
    const Vector<T, W> sum = pack<T, W>(s);
    store_raw(p.sum.row(n) + c, sum);
    rounded = __builtin_bit_cast(Piece, sum);
    unpack(rounded, s);
  }
  add_squares(s, squares);
  return rounded;
}

/// Returns rstd of a row from the squares of each thread, and writes it.
template <class T>
__device__ __forceinline__ float finish(const Arguments<T>& p, std::int64_t n, float squares) {
  __shared__ Sum<float> scratch[kMostWarps];
  const float rstd = rstd_of(block_sum(squares, scratch), p.columns, p.eps);
  if (threadIdx.x == 0) p.rstd[n] = rstd;
  return rstd;
}

/// Returns W columns of y, rounded.
template <class T, int W, class Piece>
__device__ __forceinline__ Vector<T, W> scaled(const Arguments<T>& p, const Piece& row,
                                               const Piece& weight, float rstd) {
  float s[W];
  float w[W];
  unpack(row, s);
  unpack(weight, w);
  add_offset(w, p.offset);
  normalise(s, w, rstd);
  return pack<T, W>(s);
}

/// Returns the divisor of a row of y8 from the largest magnitude that each thread has seen.
template <class T>
__device__ __forceinline__ Fp8Divisor divisor_of(const Arguments<T>& p, std::int64_t n,
                                                 unsigned largest) {
  __shared__ Largest scratch[kMostWarps];
  return divisor_of_row(largest, scratch, p.y_scale + n);
}

/// Takes rows of at most kPieces pieces of 16 bytes a thread. With kFp8 it writes y8, and y if that
/// is there.
template <class T, int kPieces, bool kFp8>
__global__ void __launch_bounds__(kThreads, blocks_with(kPieces)) rmsnorm_forward(Arguments<T> p) {
  begin_chained();
  constexpr int W = kWide<T>;
  const std::int64_t n = blockIdx.x;
  const int first = static_cast<int>(threadIdx.x) * W;
  const int step = static_cast<int>(blockDim.x) * W;
  const auto load_pieces = [&](const T* from, Packed<T, W>(&to)[kPieces]) {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      if (first + j * step < p.columns) to[j] = load_packed<T, W>(from + first + j * step);
    }
  };
  Packed<T, W> row[kPieces];
  Packed<T, W> residual[kPieces];
  Packed<T, W> weight[kPieces];
  load_pieces(p.x.row(n), row);
  if (p.residual.data != nullptr) load_pieces(p.residual.row(n), residual);
  load_pieces(p.weight, weight);
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kPieces; ++j) {
    const int c = first + j * step;
    if (c < p.columns) row[j] = add_columns<T, W>(p, n, c, row[j], residual[j], squares);
  }
  const float rstd = finish(p, n, squares);
  unsigned largest = 0;
#pragma unroll
  for (int j = 0; j < kPieces; ++j) {
    const int c = first + j * step;
    keep(row[j]);
    if (c >= p.columns) continue;
    const Vector<T, W> y = scaled<T, W>(p, row[j], weight[j], rstd);
    if (!kFp8 || p.y.data != nullptr) store_raw(p.y.row(n) + c, y);
    if constexpr (kFp8) {
      row[j] = __builtin_bit_cast(Packed<T, W>, y);
      largest = max(largest, largest_magnitude(row[j]));
    }
  }
  if constexpr (kFp8) {
    const Fp8Divisor divisor = divisor_of(p, n, largest);
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      const int c = first + j * step;
      if (c < p.columns) store_codes(p.y8.row(n) + c, row[j], divisor);
    }
  }
}

extern __shared__ __align__(16) unsigned char shared_memory[];

/// Takes rows of any width and alignment; kFp8 as above.
template <class T, int W, bool kFp8>
__global__ void __launch_bounds__(kThreads) rmsnorm_forward_shared(Arguments<T> p) {
  begin_chained();
  T* row = reinterpret_cast<T*>(shared_memory);
  const std::int64_t n = blockIdx.x;
  const int first = static_cast<int>(threadIdx.x) * W;
  const int step = static_cast<int>(blockDim.x) * W;
  float squares = 0;
  for (int c = first; c < p.columns; c += step) {
    Vector<T, W> residual{};
    if (p.residual.data != nullptr) residual = load_raw<T, W>(p.residual.row(n) + c);
    store_raw(row + c,
              add_columns<T, W>(p, n, c, load_raw<T, W>(p.x.row(n) + c), residual, squares));
  }
  const float rstd = finish(p, n, squares);
  unsigned largest = 0;
  for (int c = first; c < p.columns; c += step) {
    const Vector<T, W> y =
        scaled<T, W>(p, load_raw<T, W>(row + c), load_raw<T, W>(p.weight + c), rstd);
    if (!kFp8 || p.y.data != nullptr) store_raw(p.y.row(n) + c, y);
    if constexpr (kFp8) {
      store_raw(row + c, y);
      largest = max(largest, largest_magnitude(__builtin_bit_cast(Packed<T, W>, y)));
    }
  }
  if constexpr (kFp8) {
    const Fp8Divisor divisor = divisor_of(p, n, largest);
    for (int c = first; c < p.columns; c += step) {
      store_codes(p.y8.row(n) + c, load_packed<T, W>(row + c), divisor);
    }
  }
}

/// Returns the kernel whose threads hold `pieces` pieces each.
template <class T, bool kFp8>
auto kernel_for(std::int64_t pieces) {
  if (pieces <= 2) return rmsnorm_forward<T, 2, kFp8>;
  if (pieces <= 4) return rmsnorm_forward<T, 4, kFp8>;
  return rmsnorm_forward<T, kMostPieces, kFp8>;
}

}  // namespace

void enqueue(const Context& context, const RmsNormForward& op) {
  const std::int64_t columns = op.x.shape[1];
  const bool wide = is_wide(op.x.dtype, columns, {op.x, op.residual, op.weight, op.sum, op.y}) &&
                    rows_aligned_to(16 / static_cast<int>(size_of(op.x.dtype)), {op.y8});
  with_dtype_and_width(op.kName, op.x.dtype, wide, [&]<class T, int W>() {
    const Arguments<T> arguments{.x = Rows<const T>(op.x),
                                 .residual = Rows<const T>(op.residual),
                                 .weight = data<T>(op.weight),
                                 .sum = Rows<T>(op.sum),
                                 .y = Rows<T>(op.y),
                                 .y8 = Rows<std::uint8_t>(op.y8),
                                 .y_scale = data<float>(op.y_scale),
                                 .rstd = data<float>(op.rstd),
                                 .columns = static_cast<int>(columns),
                                 .eps = static_cast<float>(op.eps),
                                 .offset = static_cast<float>(op.offset)};
    const unsigned threads = norm_threads(columns, W);
    Launch where{.name = op.kName,
                 .stream = context.stream,
                 .grid = blocks_for(op.x.rows(), 1),
                 .block = threads,
                 .chained = true};
    const std::int64_t pieces = (columns + W * threads - 1) / (W * threads);
    const bool fp8 = static_cast<bool>(op.y8);
    if (wide && pieces <= kMostPieces) {
      const auto kernel = fp8 ? kernel_for<T, true>(pieces) : kernel_for<T, false>(pieces);
      return launch(where, kernel, arguments);
    }
    where.shared_bytes = static_cast<std::size_t>(columns) * sizeof(T);
    const auto kernel =
        fp8 ? rmsnorm_forward_shared<T, W, true> : rmsnorm_forward_shared<T, W, false>;
    launch(where, kernel, arguments);
  });
}

const void* norm_module() {
  return reinterpret_cast<const void*>(&rmsnorm_forward<float, 2, false>);
}

}  // namespace strata::cuda
