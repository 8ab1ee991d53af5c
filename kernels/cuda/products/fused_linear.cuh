// This file has the arguments of the kernel of fused_linear.cu, and brings what it multiplies with
// weights to shared memory: rows of x, normalised if the layer begins with a norm.

#pragma once

#include <cuda_bf16.h>

#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/products/fused_tiles.h"
#include "kernels/cuda/rows/norm_pieces.cuh"
#include "strata/ops/fused_linear.h"

namespace strata::cuda::fused_linear {

using T = __nv_bfloat16;

inline constexpr int kMostRows = static_cast<int>(FusedLinear::kMostRows);
inline constexpr int kWarps = FusedTile::kWarps;
inline constexpr int kThreads = 32 * kWarps;
inline constexpr int W = 8;  ///< elements of a piece of 16 bytes
static_assert(FusedTile::kStaticBytes >=
              sizeof(float) * kMostRows * (kMostWarps + FusedTile::kRowsOfB));

struct Params {
  Rows<const T> x;
  Rows<const T> added;   ///< to x before the norm; may be absent
  Rows<T> sum;           ///< x + added; present exactly if that is
  const T* norm_weight;  ///< [K], for the norm
  Rows<const T> b;
  Rows<const T> residual;  ///< may be absent
  Rows<T> out;
  int m, k;
  int columns;  ///< of out: N, or half of it
  int tiles;    ///< of out
  int steps;    ///< of k, in a tile
  float eps;
  float alpha;        ///< of the product
  float norm_offset;  ///< of weights of the norm
  Activation activation;
  int norm_threads;  ///< that would add up a row
};

/// Calls use(c, load(c)) for the pieces of a row that are this thread's, and has kAhead loads under
/// way.
template <int kAhead, class Load, class Use>
__device__ __forceinline__ void for_each_piece_of_row(int columns, const Load& load,
                                                      const Use& use) {
  for (int first = static_cast<int>(threadIdx.x) * W; first < columns;
       first += kAhead * kThreads * W) {
    decltype(load(0)) pieces[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int c = first + i * kThreads * W;
      if (c < columns) pieces[i] = load(c);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int c = first + i * kThreads * W;
      if (c < columns) use(c, pieces[i]);
    }
  }
}

struct TwoPieces {
  Packed<T, W> first, second;
};

/// Writes a row of x to shared memory, with what is added to it: by way of registers, as
/// asynchronous copies would have to wait for the weights that are on their way.
template <int kAhead>
__device__ __forceinline__ void bring_row(const Params& p, int m, T* row) {
  if (p.added.data == nullptr) {
    for_each_piece_of_row<kAhead>(
        p.k, [&](int c) { return load_packed<T, W>(p.x.row(m) + c); },
        [&](int c, const Packed<T, W>& piece) { store_raw(row + c, piece); });
    return;
  }
  for_each_piece_of_row<4>(
      p.k,
      [&](int c) {
        return TwoPieces{load_packed<T, W>(p.x.row(m) + c), load_packed<T, W>(p.added.row(m) + c)};
      },
      [&](int c, const TwoPieces& pieces) {
        float s[W];
        float added[W];
        unpack(pieces.first, s);
        unpack(pieces.second, added);
#pragma unroll
        for (int i = 0; i < W; ++i) s[i] += added[i];
        const Vector<T, W> sum = pack<T, W>(s);
        store_raw(row + c, sum);
        if (blockIdx.x == 0) store_raw(p.sum.row(m) + c, sum);
      });
}

/// The weights of the norm that are a thread's, the first ones in registers since before the kernel
/// before this one had ended.
class NormWeights {
 public:
  __device__ __forceinline__ explicit NormWeights(const Params& p) : all_(p.norm_weight) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (column(i) < p.k) held_[i] = load_packed<T, W>(all_ + column(i));
    }
  }
  /// Calls use(c, weights) for the thread's pieces of a row.
  template <class Use>
  __device__ __forceinline__ void for_each(int columns, const Use& use) const {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (column(i) < columns) use(column(i), held_[i]);
    }
    for (int c = column(kHeld); c < columns; c += kThreads * W) {
      use(c, load_packed<T, W>(all_ + c));
    }
  }

 private:
  static constexpr int kHeld = 4;
  __device__ static int column(int i) { return (i * kThreads + static_cast<int>(threadIdx.x)) * W; }
  const T* all_;
  Packed<T, W> held_[kHeld];
};

/// Normalises rows in shared memory, where all of them are. A warp does what several warps of
/// norm.cu do, one after the other.
__device__ __forceinline__ void normalise_rows(const Params& p, const NormWeights& weights, T* rows,
                                               int row_elements) {
  __shared__ Sum<float> squares_of_warps[kMostRows][kMostWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = p.norm_threads / kWarp;
  for (int m = 0; m < p.m; ++m) {
    for (int w = warp; w < warps; w += kWarps) {
      float squares = 0;
      for (int c = (w * kWarp + lane) * W; c < p.k; c += p.norm_threads * W) {
        float s[W];
        load(rows + m * row_elements + c, s);
        add_squares(s, squares);
      }
      const Sum<float> sum = warp_reduce(Sum<float>{squares}, Add<float>{});
      if (lane == 0) squares_of_warps[m][w] = sum;
    }
  }
  __syncthreads();
  for (int m = 0; m < p.m; ++m) {
    const Sum<float> mine = lane < warps ? squares_of_warps[m][lane] : Sum<float>{0.0f};
    const float rstd = rstd_of(warp_reduce(mine, Add<float>{}).value, p.k, p.eps);
    T* const row = rows + m * row_elements;
    weights.for_each(p.k, [&](int c, const Packed<T, W>& piece) {
      float s[W];
      float weight[W];
      load(row + c, s);
      unpack(piece, weight);
      add_offset(weight, p.norm_offset);
      normalise(s, weight, rstd);
      store(row + c, s);
    });
  }
}

/// Writes x to shared memory, and zeros behind it.
template <int kAhead>
__device__ __forceinline__ void bring_rows(const Params& p, T* rows, int row_elements) {
  const Vector<T, W> zeros{};
  if (threadIdx.x == 0) store_raw(rows + p.m * row_elements, zeros);
  for (int m = 0; m < p.m; ++m) {
    T* const row = rows + m * row_elements;
    for (int c = p.k + static_cast<int>(threadIdx.x) * W; c < FusedTile::padded(p.k);
         c += kThreads * W) {
      store_raw(row + c, zeros);
    }
    bring_row<kAhead>(p, m, row);
  }
}

}  // namespace strata::cuda::fused_linear
