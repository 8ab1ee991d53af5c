// This file has what the plain kernels of attention share, forward and backward: arguments, and
// rows of a head in the hands of a warp. attention_reference.cu says how the work is shared out.

#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/cuda/attention/attention_segments.cuh"
#include "kernels/cuda/common/launch.cuh"

namespace strata::cuda::attention_reference {

inline constexpr int kWarps = 4;
inline constexpr int kLargestHeadDim = 256;
/// Columns lane + 32 * c of a head are a lane's.
inline constexpr int kColumns = kLargestHeadDim / 32;
inline constexpr float kNoScore = -std::numeric_limits<float>::infinity();

inline __device__ float to_float(float x) { return x; }
inline __device__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
inline __device__ float to_float(std::int8_t x) { return static_cast<float>(x); }
inline __device__ void from_float(float x, float& to) { to = x; }
inline __device__ void from_float(float x, __nv_bfloat16& to) { to = __float2bfloat16_rn(x); }

/// The factors of rows and heads of int8; others have none.
struct Scales {
  const float* data;
  std::int64_t stride;

  template <class Kept>
  __device__ float of(int row, int head) const {
    return std::is_same_v<Kept, std::int8_t> ? data[row * stride + head] : 1.0f;
  }
};

/// `Kept` is T, or int8 in the forward.
template <class T, class Kept = T>
struct ReferenceParams {
  Segments segments;
  HeadRows<const T> q, d_o;
  HeadRows<const Kept> k, v;
  Scales k_scale, v_scale;
  HeadRows<const T> o_in;  ///< o as the backward reads it
  HeadRows<T> o, dq, dk, dv;
  float* lse;           ///< as the forward writes it
  const float* lse_in;  ///< as the backward reads it
  float* delta;
  std::int64_t query_rows, key_rows;
  int heads, kv_heads, head_dim;
  float scale;
  ScoreShape scores;
};

/// One head's row as floats, shared by the lanes of a warp.
struct WarpRow {
  float* data;
  int head_dim;

  template <class T>
  __device__ void fill(const T* row) const {
    for (int d = static_cast<int>(threadIdx.x) % 32; d < head_dim; d += 32) {
      data[d] = to_float(row[d]);
    }
    __syncwarp();
  }
  template <class T>
  __device__ float dot(const T* row) const {
    float sum = 0;
    for (int d = 0; d < head_dim; ++d) sum = fmaf(data[d], to_float(row[d]), sum);
    return sum;
  }
};

/// A row being summed up, its columns shared out over the lanes of a warp.
struct RowSum {
  float columns[kColumns] = {};

  template <class T>
  __device__ void add(float factor, const T* row, int head_dim) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int d = c * 32 + static_cast<int>(threadIdx.x) % 32;
      if (d < head_dim) columns[c] = fmaf(factor, to_float(row[d]), columns[c]);
    }
  }
  __device__ void multiply(float factor) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) columns[c] *= factor;
  }
  template <class T>
  __device__ void store(T* row, int head_dim) const {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int d = c * 32 + static_cast<int>(threadIdx.x) % 32;
      if (d < head_dim) from_float(columns[c], row[d]);
    }
  }
};

inline __device__ float warp_max(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
  return x;
}
inline __device__ float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}

/// Returns the segment of a query, which the whole warp looks for; one without queries if there is
/// none.
inline __device__ Segment segment_of_query(const Segments& segments, int row) {
  if (segments.uniform_length > 0) return segments.at(row / segments.uniform_length);
  for (int first = 0; first < segments.count; first += 32) {
    const int mine = first + static_cast<int>(threadIdx.x) % 32;
    bool holds = false;
    if (mine < segments.count) {
      const Segment segment = segments.at(mine);
      holds = row >= segment.q_begin && row < segment.q_begin + segment.q_length;
    }
    const unsigned found = __ballot_sync(~0u, holds);
    if (found != 0) return segments.at(first + __ffs(static_cast<int>(found)) - 1);
  }
  return {};
}

/// Returns the first key, counted from the segment's, that a query of the segment sees.
inline __device__ int first_key(const Segment& segment, int query, int window) {
  return max(0, query + segment.q_offset + 1 - window);
}

/// Returns the item of this warp, or -1 if there are fewer.
inline __device__ std::int64_t warp_item(std::int64_t items) {
  const std::int64_t item = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  return item < items ? item : -1;
}

template <class T, class O>
ReferenceParams<T> common_params(const O& op) {
  ReferenceParams<T> params{};
  params.segments = make_segments(op.segments, op.q.shape[0]);
  params.q = head_rows<const T>(op.q);
  params.k = head_rows<const T>(op.k);
  params.v = head_rows<const T>(op.v);
  params.query_rows = op.q.shape[0];
  params.key_rows = op.k.shape[0];
  params.heads = narrow<int>(op.q.shape[1]);
  params.kv_heads = narrow<int>(op.k.shape[1]);
  params.head_dim = narrow<int>(op.q.shape[2]);
  params.scale = static_cast<float>(op.scale);
  params.scores = score_shape(op);
  return params;
}

}  // namespace strata::cuda::attention_reference
