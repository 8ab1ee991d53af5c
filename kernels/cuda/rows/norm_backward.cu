// This file computes the backward of RMSNorm on CUDA; CudaKernels launches it through operators.h.
// It takes rows of any width and alignment, in bf16 or f32, adds to d_weight, and gives the same
// bits in every run; the operator brings the workspace.
//
// With xhat = x * rstd and g = (weight + offset) * dy:
//   dx = d_residual + rstd * (g - xhat * mean(g * xhat)),  d_weight += sum over rows of dy * xhat.
// dx8 and dx_scale: dx in e4m3, where it is asked for.
//
// Shapes: x, dy, d_residual, dx [N, C], rows may be strided; weight and d_weight [C]; rstd [N] f32.
// Tile: block i of at most 256 takes the i-th run of rows, one after the other. A thread owns the
// same columns in every row: it keeps their weights and sums of d_weight in registers, and copies
// its part of the next rows into a ring in shared memory while it works on this one, so the only
// barrier is that of the sum over a row. Two blocks on a multiprocessor for C <= 4096 in bf16, one
// beyond: 96 to 216 KiB under way there. The sums of the blocks go to the workspace, and
// add_partial_rows() adds them. Rows that are not aligned or very wide, and devices with less
// shared memory, go without the ring: they read a row a second time, from the caches, and ask L2
// for the next one. Numerics: f32. Sums over a row: fixed tree. d_weight: ascending rows within a
// block, then eight partial sums over blocks and their sum: fixed for given N, and another order
// than the CPU's. Measured on one H200, 2026-11-21, bf16, TB/s (a copy moves 4.2): 3.3 at C = 4096
// (2.2 without the ring), 3.4 with d_residual; 3.5 and 3.7 at C = 8192. Naive version: kernels/cpu.

#include <optional>

#include "kernels/cuda/common/copy_async.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/fp8_divisor.cuh"
#include "kernels/cuda/rows/magnitudes.cuh"
#include "kernels/cuda/rows/norm_pieces.cuh"
#include "kernels/cuda/rows/partial_rows.h"
#include "kernels/cuda/rows/row_rings.h"

namespace strata::cuda {
namespace {

using norm_backward::kMostPieces;
using norm_backward::kThreads;
using norm_backward::stages_with;

/// Returns how many blocks a multiprocessor has, by the registers of a thread.
constexpr int blocks_with(int pieces) { return pieces == 1 ? 2 : 1; }

extern __shared__ __align__(16) unsigned char shared_memory[];

template <class T>
struct Arguments {
  Rows<const T> dy;
  Rows<const T> x;
  const T* weight;
  const float* rstd;
  Rows<const T> d_residual;  ///< may be absent
  Rows<T> dx;
  Rows<std::uint8_t> dx8;  ///< may be absent
  float* dx_scale;
  float* workspace;  ///< [gridDim.x, columns]
  std::int64_t rows;
  std::int64_t rows_per_block;
  int columns;
  float offset;  ///< of weights
};

/// Returns the share of W columns in the sum of g * xhat over a row.
template <int W>
__device__ __forceinline__ float partial_dot(const float (&dy)[W], const float (&x)[W],
                                             const float (&w)[W], float rstd) {
  float dot = 0;
#pragma unroll
  for (int i = 0; i < W; ++i) dot += (w[i] * dy[i]) * (x[i] * rstd);
  return dot;
}

/// Turns dx, which holds d_residual, into the gradient of W columns, and adds to dw.
template <int W>
__device__ __forceinline__ void differentiate(const float (&dy)[W], const float (&x)[W],
                                              const float (&w)[W], float rstd, float mean,
                                              float (&dx)[W], float (&dw)[W]) {
#pragma unroll
  for (int i = 0; i < W; ++i) {
    const float xhat = x[i] * rstd;
    dx[i] += rstd * (w[i] * dy[i] - xhat * mean);
    dw[i] += dy[i] * xhat;
  }
}

/// The ring of rows of one block: it holds dy, x and d_residual of each row one after the other.
template <class T, int kPieces>
struct Ring {
  static constexpr int kStages = stages_with(kPieces);
  static constexpr int W = kWide<T>;
  T* rows;
  int first;  ///< column of this thread's first piece
  int step;   ///< columns from one of its pieces to the next

  __device__ T* row(const Arguments<T>& p, std::int64_t index) const {
    const int tensors = p.d_residual.data != nullptr ? 3 : 2;
    return rows + static_cast<int>(static_cast<unsigned>(index) % kStages) * tensors * p.columns;
  }
  /// Starts to copy this thread's part of row n, the index-th of the block, if there is one.
  __device__ __forceinline__ void start(const Arguments<T>& p, std::int64_t n, std::int64_t index,
                                        bool exists) const {
    T* to = row(p, index);
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      const int c = first + j * step;
      if (!exists || c >= p.columns) continue;
      copy_async<T, W>(to + c, p.dy.row(n) + c);
      copy_async<T, W>(to + p.columns + c, p.x.row(n) + c);
      if (p.d_residual.data != nullptr) {
        copy_async<T, W>(to + 2 * p.columns + c, p.d_residual.row(n) + c);
      }
    }
    end_copy_group();
  }
};

/// Returns the divisor of the block's row `i`, which is row n, of dx8, from the largest magnitude
/// that each thread has seen. Rows take turns with the scratch.
template <class T>
__device__ __forceinline__ Fp8Divisor divisor_of(const Arguments<T>& p, std::int64_t i,
                                                 std::int64_t n, unsigned largest) {
  __shared__ Largest scratch[2][kMostWarps];
  return divisor_of_row(largest, scratch[i % 2], p.dx_scale + n);
}

/// With kFp8 it also writes dx8.
template <class T, int kPieces, bool kFp8>
__global__ void __launch_bounds__(kThreads, blocks_with(kPieces)) rmsnorm_backward(Arguments<T> p) {
  constexpr int W = kWide<T>;
  constexpr int kStages = stages_with(kPieces);
  __shared__ Sum<float> scratch[2][kMostWarps];
  const Ring<T, kPieces> ring{.rows = reinterpret_cast<T*>(shared_memory),
                              .first = static_cast<int>(threadIdx.x) * W,
                              .step = static_cast<int>(blockDim.x) * W};
  const std::int64_t begin = blockIdx.x * p.rows_per_block;
  const std::int64_t rows = min(p.rows_per_block, p.rows - begin);
  for (int i = 0; i < kStages - 1; ++i) ring.start(p, begin + i, i, i < rows);
  Packed<T, W> weight[kPieces];
  float d_weight[kPieces][W] = {};
#pragma unroll
  for (int j = 0; j < kPieces; ++j) {
    const int c = ring.first + j * ring.step;
    if (c < p.columns) weight[j] = load_packed<T, W>(p.weight + c);
  }
  float next_rstd = p.rstd[begin];
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t n = begin + i;
    const float rstd = next_rstd;
    if (i + 1 < rows) next_rstd = p.rstd[n + 1];
    ring.start(p, n + kStages - 1, i + kStages - 1, i + kStages - 1 < rows);
    wait_for_copy_groups<kStages - 1>();
    const T* row = ring.row(p, i);
    float dy[W];
    float x[W];
    float w[W];
    float dot = 0;
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      const int c = ring.first + j * ring.step;
      if (c >= p.columns) continue;
      load(row + c, dy);
      load(row + p.columns + c, x);
      unpack(weight[j], w);
      add_offset(w, p.offset);
      dot += partial_dot(dy, x, w, rstd);
    }
    // Rows take turns with the scratch, so that one barrier a row is enough.
    const float mean = block_sum_once(dot, scratch[i % 2]) / static_cast<float>(p.columns);
    [[maybe_unused]] unsigned largest = 0;
    [[maybe_unused]] Packed<T, W> rounded[kFp8 ? kPieces : 1];
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      const int c = ring.first + j * ring.step;
      if (c >= p.columns) continue;
      float dx[W] = {};
      load(row + c, dy);
      load(row + p.columns + c, x);
      unpack(weight[j], w);
      add_offset(w, p.offset);
      if (p.d_residual.data != nullptr) load(row + 2 * p.columns + c, dx);
      differentiate(dy, x, w, rstd, mean, dx, d_weight[j]);
      const Vector<T, W> packed = pack<T, W>(dx);
      store_raw(p.dx.row(n) + c, packed);
      if constexpr (kFp8) {
        rounded[j] = __builtin_bit_cast(Packed<T, W>, packed);
        largest = max(largest, largest_magnitude(rounded[j]));
      }
    }
    if constexpr (kFp8) {
      const Fp8Divisor divisor = divisor_of(p, i, n, largest);
#pragma unroll
      for (int j = 0; j < kPieces; ++j) {
        const int c = ring.first + j * ring.step;
        if (c < p.columns) store_codes(p.dx8.row(n) + c, rounded[j], divisor);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kPieces; ++j) {
    const int c = ring.first + j * ring.step;
    if (c >= p.columns) continue;
    store(p.workspace + static_cast<std::int64_t>(blockIdx.x) * p.columns + c, d_weight[j]);
  }
}

template <class T>
__device__ __forceinline__ void prefetch(const T* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

/// Takes rows of any width and alignment, and keeps d_weight in shared memory; kFp8 as above.
template <class T, int W, bool kFp8>
__global__ void __launch_bounds__(kThreads, 2) rmsnorm_backward_reread(Arguments<T> p) {
  __shared__ Sum<float> scratch[kMostWarps];
  auto* d_weight = reinterpret_cast<float*>(shared_memory);
  const int first = static_cast<int>(threadIdx.x) * W;
  const int step = static_cast<int>(blockDim.x) * W;
  constexpr float kZeros[W] = {};
  for (int c = first; c < p.columns; c += step) store(d_weight + c, kZeros);
  const std::int64_t begin = blockIdx.x * p.rows_per_block;
  const std::int64_t end = min(begin + p.rows_per_block, p.rows);
  float dy[W];
  float x[W];
  float w[W];
  const auto load_columns = [&](std::int64_t n, int c) {
    load(p.dy.row(n) + c, dy);
    load(p.x.row(n) + c, x);
    load(p.weight + c, w);
    add_offset(w, p.offset);
  };
  for (std::int64_t n = begin; n < end; ++n) {
    const float rstd = p.rstd[n];
    float dot = 0;
    for (int c = first; c < p.columns; c += step) {
      if (n + 1 < end) {
        prefetch(p.dy.row(n + 1) + c);
        prefetch(p.x.row(n + 1) + c);
        if (p.d_residual.data != nullptr) prefetch(p.d_residual.row(n + 1) + c);
      }
      load_columns(n, c);
      dot += partial_dot(dy, x, w, rstd);
    }
    const float mean = block_sum(dot, scratch) / static_cast<float>(p.columns);
    [[maybe_unused]] unsigned largest = 0;
    for (int c = first; c < p.columns; c += step) {
      float dw[W];
      float dx[W] = {};
      load_columns(n, c);
      load(d_weight + c, dw);
      if (p.d_residual.data != nullptr) load(p.d_residual.row(n) + c, dx);
      differentiate(dy, x, w, rstd, mean, dx, dw);
      const Vector<T, W> packed = pack<T, W>(dx);
      store_raw(p.dx.row(n) + c, packed);
      store(d_weight + c, dw);
      if constexpr (kFp8) {
        largest = max(largest, largest_magnitude(__builtin_bit_cast(Packed<T, W>, packed)));
      }
    }
    if constexpr (kFp8) {
      const Fp8Divisor divisor = divisor_of(p, n - begin, n, largest);
      for (int c = first; c < p.columns; c += step) {  // what this thread has written
        store_codes(p.dx8.row(n) + c, load_packed<T, W>(p.dx.row(n) + c), divisor);
      }
    }
  }
  for (int c = first; c < p.columns; c += step) {
    float dw[W];
    load(d_weight + c, dw);
    store(p.workspace + static_cast<std::int64_t>(blockIdx.x) * p.columns + c, dw);
  }
}

/// Launches the kernel with the ring whose threads own `pieces` pieces each. Returns false if this
/// device has too little shared memory.
template <class T>
bool launch_with_ring(Launch where, std::int64_t pieces, const Arguments<T>& arguments) {
  const std::size_t row_bytes = static_cast<std::size_t>(arguments.columns) * sizeof(T) *
                                (arguments.d_residual.data != nullptr ? 3 : 2);
  const std::optional<std::size_t> ring = norm_backward::ring_bytes(
      static_cast<int>(pieces), row_bytes, {.shared_bytes = most_shared_bytes()});
  if (!ring) return false;
  where.shared_bytes = *ring;
  const auto launched = [&](void (*kernel)(Arguments<T>)) {
    launch(where, kernel, arguments);
    return true;
  };
  const auto launched_with = [&]<int kPieces>() {
    const bool fp8 = arguments.dx8.data != nullptr;
    return launched(fp8 ? rmsnorm_backward<T, kPieces, true> : rmsnorm_backward<T, kPieces, false>);
  };
  if (pieces <= 1) return launched_with.template operator()<1>();
  if (pieces == 2) return launched_with.template operator()<2>();
  if (pieces == 3) return launched_with.template operator()<3>();
  return launched_with.template operator()<kMostPieces>();
}

}  // namespace

void enqueue(const Context& context, const RmsNormBackward& op) {
  const std::int64_t rows = op.x.rows();
  const std::int64_t columns = op.x.shape[1];
  if (rows == 0 || columns == 0) return;
  const std::int64_t per_block =
      (rows + RmsNormBackward::kWorkspaceRows - 1) / RmsNormBackward::kWorkspaceRows;
  const unsigned blocks = blocks_for(rows, per_block);
  const bool wide =
      is_wide(op.x.dtype, columns, {op.dy, op.x, op.weight, op.d_residual, op.dx, op.workspace}) &&
      rows_aligned_to(16 / static_cast<int>(size_of(op.x.dtype)), {op.dx8});
  with_dtype_and_width(op.kName, op.x.dtype, wide, [&]<class T, int W>() {
    const Arguments<T> arguments{.dy = Rows<const T>(op.dy),
                                 .x = Rows<const T>(op.x),
                                 .weight = data<T>(op.weight),
                                 .rstd = data<float>(op.rstd),
                                 .d_residual = Rows<const T>(op.d_residual),
                                 .dx = Rows<T>(op.dx),
                                 .dx8 = Rows<std::uint8_t>(op.dx8),
                                 .dx_scale = data<float>(op.dx_scale),
                                 .workspace = data<float>(op.workspace),
                                 .rows = rows,
                                 .rows_per_block = per_block,
                                 .columns = static_cast<int>(columns),
                                 .offset = static_cast<float>(op.offset)};
    const std::int64_t pieces = (columns + W * kThreads - 1) / (W * kThreads);
    // All threads get equal parts: a row that is no multiple of kThreads pieces takes fewer of
    // them, and a multiprocessor more blocks.
    const std::int64_t each = wide ? W * pieces : W;
    Launch where{.name = op.kName,
                 .stream = context.stream,
                 .grid = blocks,
                 .block = whole_warps((columns + each - 1) / each, kThreads)};
    if (wide && pieces <= kMostPieces && launch_with_ring(where, pieces, arguments)) return;
    where.shared_bytes = static_cast<std::size_t>(columns) * sizeof(float);
    const auto kernel =
        op.dx8 ? rmsnorm_backward_reread<T, W, true> : rmsnorm_backward_reread<T, W, false>;
    launch(where, kernel, arguments);
  });
  if (!op.d_weight) return;
  add_partial_rows(
      op.kName, context.stream,
      {.data = data<float>(op.workspace), .rows = static_cast<int>(blocks), .columns = columns},
      data<float>(op.d_weight));
}

const void* norm_backward_module() {
  return reinterpret_cast<const void*>(&rmsnorm_backward_reread<float, 1, false>);
}

}  // namespace strata::cuda
