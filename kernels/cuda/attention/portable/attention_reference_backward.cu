// This file computes the backward of attention in plain f32 arithmetic, as attention_reference.cu
// does the forward: a warp has one query for dq and delta, one key for dk and dv. The kernel of dk
// and dv reads delta, so it comes second.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/portable/attention_reference.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {

namespace attention_reference {

namespace {

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

}  // namespace attention_reference

void launch_reference_attention_backward(cudaStream_t stream, const AttentionBackward& op) {
  with_dtype(AttentionBackward::kName, op.q.dtype,
             [&]<class T>() { attention_reference::launch_backward<T>(stream, op); });
}

const void* attention_reference_backward_module() {
  return reinterpret_cast<const void*>(
      &attention_reference::attention_reference_query_gradients_kernel<float, false>);
}

}  // namespace strata::cuda
