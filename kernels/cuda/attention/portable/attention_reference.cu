// This file computes the operators of strata/ops/attention.h in plain f32 arithmetic. attention.cu
// launches it for f32 tensors and for head dims, up to 256, that the tensor-core kernels do not
// have, and decode_int8_attention.cu does for keys and values in int8. Results have the same bits
// every time; the rotation is left out.
//
// One warp computes one query (forward, dq) or key (dk, dv) of one head. It goes through its
// partners, keys or queries, 32 at a time: first each lane takes one partner and forms whole dot
// products, then the lanes share out the head dim and add up the 32 contributions in order. The
// order is fixed, hence the result is deterministic; memory traffic is of no concern here.
// Numerics: everything in f32 from the tensors' values, rounded once when stored.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <limits>
#include <type_traits>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/attention_segments.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kLargestHeadDim = 256;
constexpr int kColumns = kLargestHeadDim / 32;  ///< columns lane + 32 * c of a head are a lane's
constexpr float kNoScore = -std::numeric_limits<float>::infinity();

__device__ float to_float(float x) { return x; }
__device__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ float to_float(std::int8_t x) { return static_cast<float>(x); }
__device__ void from_float(float x, float& to) { to = x; }
__device__ void from_float(float x, __nv_bfloat16& to) { to = __float2bfloat16_rn(x); }

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

__device__ float warp_max(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
  return x;
}
__device__ float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}

/// Returns the segment of a query, which the whole warp looks for; one without queries if there is
/// none.
__device__ Segment segment_of_query(const Segments& segments, int row) {
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
__device__ int first_key(const Segment& segment, int query, int window) {
  return max(0, query + segment.q_offset + 1 - window);
}

/// Returns the item of this warp, or -1 if there are fewer.
__device__ std::int64_t warp_item(std::int64_t items) {
  const std::int64_t item = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  return item < items ? item : -1;
}

template <class T, class Kept, bool kCapped>
__global__ void __launch_bounds__(32 * kWarps)
    attention_reference_forward_kernel(const ReferenceParams<T, Kept> p) {
  __shared__ float rows[kWarps][kLargestHeadDim];
  const std::int64_t item = warp_item(p.query_rows * p.heads);
  if (item < 0) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(item / p.heads);
  const int head = static_cast<int>(item % p.heads);
  const int kv_head = head / (p.heads / p.kv_heads);
  const Segment segment = segment_of_query(p.segments, row);
  const int keys = min(segment.k_length, row - segment.q_begin + segment.q_offset + 1);

  const WarpRow query{rows[threadIdx.x / 32], p.head_dim};
  query.fill(p.q.row(row, head));
  RowSum o;
  float maximum = kNoScore;
  float sum = 0;
  const int begin = first_key(segment, row - segment.q_begin, p.scores.window);
  for (int first = begin; first < keys; first += 32) {
    const int count = min(32, keys - first);
    const int key = segment.k_begin + first;
    float score = kNoScore;
    if (lane < count) {
      score = query.dot(p.k.row(key + lane, kv_head)) *
              p.k_scale.template of<Kept>(key + lane, kv_head) * p.scale;
      if constexpr (kCapped) score = p.scores.cap * tanhf(score / p.scores.cap);
    }
    const float new_maximum = fmaxf(maximum, warp_max(score));
    const float correction = expf(maximum - new_maximum);
    const float weight = expf(score - new_maximum);
    maximum = new_maximum;
    sum = sum * correction + warp_sum(weight);
    o.multiply(correction);
    for (int j = 0; j < count; ++j) {
      const float factor = p.v_scale.template of<Kept>(key + j, kv_head);
      o.add(__shfl_sync(~0u, weight, j) * factor, p.v.row(key + j, kv_head), p.head_dim);
    }
  }
  o.multiply(sum > 0 ? 1 / sum : 0.0f);
  o.store(p.o.row(row, head), p.head_dim);
  if (lane != 0 || p.lse == nullptr) return;
  p.lse[head * p.query_rows + row] = sum > 0 ? maximum + logf(sum) : kNoScore;
}

/// What a score is once it is capped, and its derivative by what it was before.
struct CappedScore {
  float score, slope;
  __device__ CappedScore(float of, float cap) {
    const float t = tanhf(of / cap);
    score = cap * t;
    slope = 1 - t * t;
  }
};

/// Computes dq, and delta for the other kernel.
template <class T, bool kCapped>
__global__ void __launch_bounds__(32 * kWarps)
    attention_reference_query_gradients_kernel(const ReferenceParams<T> p) {
  __shared__ float rows[2 * kWarps][kLargestHeadDim];
  const std::int64_t item = warp_item(p.query_rows * p.heads);
  if (item < 0) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(item / p.heads);
  const int head = static_cast<int>(item % p.heads);
  const int kv_head = head / (p.heads / p.kv_heads);
  const Segment segment = segment_of_query(p.segments, row);
  const int keys = min(segment.k_length, row - segment.q_begin + segment.q_offset + 1);

  const WarpRow query{rows[threadIdx.x / 32], p.head_dim};
  const WarpRow d_o{rows[kWarps + threadIdx.x / 32], p.head_dim};
  query.fill(p.q.row(row, head));
  d_o.fill(p.d_o.row(row, head));
  const float delta = d_o.dot(p.o_in.row(row, head));
  const float lse = p.lse_in[head * p.query_rows + row];
  RowSum dq;
  const int begin = first_key(segment, row - segment.q_begin, p.scores.window);
  for (int first = begin; first < keys; first += 32) {
    const int count = min(32, keys - first);
    const int key = segment.k_begin + first;
    float d_score = 0;
    if (lane < count) {
      float weight;
      float slope = 1;
      if constexpr (kCapped) {
        const CappedScore capped(query.dot(p.k.row(key + lane, kv_head)) * p.scale, p.scores.cap);
        weight = expf(capped.score - lse);
        slope = capped.slope;
      } else {
        weight = expf(query.dot(p.k.row(key + lane, kv_head)) * p.scale - lse);
      }
      d_score = weight * (d_o.dot(p.v.row(key + lane, kv_head)) - delta);
      if constexpr (kCapped) d_score *= slope;
    }
    for (int j = 0; j < count; ++j) {
      dq.add(__shfl_sync(~0u, d_score, j), p.k.row(key + j, kv_head), p.head_dim);
    }
  }
  dq.multiply(p.scale);
  dq.store(p.dq.row(row, head), p.head_dim);
  if (lane == 0) p.delta[head * p.query_rows + row] = delta;
}

template <class T, bool kCapped>
__global__ void __launch_bounds__(32 * kWarps)
    attention_reference_key_gradients_kernel(const ReferenceParams<T> p) {
  __shared__ float rows[2 * kWarps][kLargestHeadDim];
  const std::int64_t item = warp_item(p.key_rows * p.kv_heads);
  if (item < 0) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(item / p.kv_heads);
  const int kv_head = static_cast<int>(item % p.kv_heads);
  const int group = p.heads / p.kv_heads;
  const bool uniform = p.segments.uniform_length > 0;
  const int first_segment = uniform ? row / p.segments.uniform_length : 0;
  const int end_segment = uniform ? first_segment + 1 : p.segments.count;

  const WarpRow key{rows[threadIdx.x / 32], p.head_dim};
  const WarpRow value{rows[kWarps + threadIdx.x / 32], p.head_dim};
  key.fill(p.k.row(row, kv_head));
  value.fill(p.v.row(row, kv_head));
  RowSum dk;
  RowSum dv;
  for (int i = first_segment; i < end_segment; ++i) {
    const Segment segment = p.segments.at(i);
    if (segment.q_length == 0) break;  // the rest of the table is unused
    const int own_key = row - segment.k_begin;
    if (own_key < 0 || own_key >= segment.k_length) continue;
    const int last_queries = own_key - segment.q_offset + p.scores.window;
    const int queries = min(segment.q_length, last_queries);
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (int first = max(0, own_key - segment.q_offset); first < queries; first += 32) {
        const int count = min(32, queries - first);
        const int query = segment.q_begin + first;
        float weight = 0;
        float d_score = 0;
        if (lane < count) {
          const std::int64_t at = head * p.query_rows + query + lane;
          float slope = 1;
          if constexpr (kCapped) {
            const CappedScore capped(key.dot(p.q.row(query + lane, head)) * p.scale, p.scores.cap);
            weight = expf(capped.score - p.lse_in[at]);
            slope = capped.slope;
          } else {
            weight = expf(key.dot(p.q.row(query + lane, head)) * p.scale - p.lse_in[at]);
          }
          d_score = weight * (value.dot(p.d_o.row(query + lane, head)) - p.delta[at]);
          if constexpr (kCapped) d_score *= slope;
        }
        for (int j = 0; j < count; ++j) {
          dv.add(__shfl_sync(~0u, weight, j), p.d_o.row(query + j, head), p.head_dim);
          dk.add(__shfl_sync(~0u, d_score, j), p.q.row(query + j, head), p.head_dim);
        }
      }
    }
  }
  dk.multiply(p.scale);
  dk.store(p.dk.row(row, kv_head), p.head_dim);
  dv.store(p.dv.row(row, kv_head), p.head_dim);
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

template <class T>
void launch_forward(cudaStream_t stream, const AttentionForward& op) {
  ReferenceParams<T> params = common_params<T>(op);
  params.o = head_rows<T>(op.o);
  params.lse = op.lse.as<float>();
  launch({.name = AttentionForward::kName,
          .stream = stream,
          .grid = blocks_for(params.query_rows * params.heads, kWarps),
          .block = 32 * kWarps},
         op.score_cap > 0 ? attention_reference_forward_kernel<T, T, true>
                          : attention_reference_forward_kernel<T, T, false>,
         params);
}

template <class T>
void launch_forward(cudaStream_t stream, const AttendInt8Kv& op) {
  ReferenceParams<T, std::int8_t> params{};
  params.segments = make_segments({.table = op.segments}, op.q.shape[0]);
  params.q = head_rows<const T>(op.q);
  params.k = head_rows<const std::int8_t>(op.cache.k);
  params.v = head_rows<const std::int8_t>(op.cache.v);
  params.k_scale = {op.cache.k_scale.as<float>(), op.cache.k_scale.row_stride};
  params.v_scale = {op.cache.v_scale.as<float>(), op.cache.v_scale.row_stride};
  params.o = head_rows<T>(op.o);
  params.query_rows = op.q.shape[0];
  params.key_rows = op.cache.k.shape[0];
  params.heads = narrow<int>(op.q.shape[1]);
  params.kv_heads = narrow<int>(op.cache.k.shape[1]);
  params.head_dim = narrow<int>(op.q.shape[2]);
  params.scale = static_cast<float>(op.scale);
  params.scores = score_shape(op);
  launch({.name = AttendInt8Kv::kName,
          .stream = stream,
          .grid = blocks_for(params.query_rows * params.heads, kWarps),
          .block = 32 * kWarps},
         op.score_cap > 0 ? attention_reference_forward_kernel<T, std::int8_t, true>
                          : attention_reference_forward_kernel<T, std::int8_t, false>,
         params);
}

template <class T>
void launch_backward(cudaStream_t stream, const AttentionBackward& op) {
  ReferenceParams<T> params = common_params<T>(op);
  params.d_o = head_rows<const T>(op.d_o);
  params.o_in = head_rows<const T>(op.o);
  params.dq = head_rows<T>(op.dq);
  params.dk = head_rows<T>(op.dk);
  params.dv = head_rows<T>(op.dv);
  params.lse_in = op.lse.as<float>();
  params.delta = op.delta.as<float>();
  Launch where{.name = AttentionBackward::kName, .stream = stream, .block = 32 * kWarps};
  where.grid = blocks_for(params.query_rows * params.heads, kWarps);
  const bool capped = op.score_cap > 0;
  launch(where,
         capped ? attention_reference_query_gradients_kernel<T, true>
                : attention_reference_query_gradients_kernel<T, false>,
         params);
  where.grid = blocks_for(params.key_rows * params.kv_heads, kWarps);
  launch(where,
         capped ? attention_reference_key_gradients_kernel<T, true>
                : attention_reference_key_gradients_kernel<T, false>,
         params);
}

}  // namespace

void launch_reference_attention_forward(cudaStream_t stream, const AttentionForward& op) {
  with_dtype(AttentionForward::kName, op.q.dtype,
             [&]<class T>() { launch_forward<T>(stream, op); });
}

void launch_reference_attend_int8(cudaStream_t stream, const AttendInt8Kv& op) {
  with_dtype(AttendInt8Kv::kName, op.q.dtype, [&]<class T>() { launch_forward<T>(stream, op); });
}

void launch_reference_attention_backward(cudaStream_t stream, const AttentionBackward& op) {
  with_dtype(AttentionBackward::kName, op.q.dtype,
             [&]<class T>() { launch_backward<T>(stream, op); });
}

const void* attention_reference_module() {
  return reinterpret_cast<const void*>(&attention_reference_forward_kernel<float, float, false>);
}

}  // namespace strata::cuda
