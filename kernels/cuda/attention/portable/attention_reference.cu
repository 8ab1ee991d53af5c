// This file computes the operators of strata/ops/attention.h in plain f32 arithmetic, the backward
// in attention_reference_backward.cu. attention.cu launches both for f32 tensors and for head dims,
// up to 256, that the tensor-core kernels do not have, and decode_int8_attention.cu does the
// forward for keys and values in int8. Results have the same bits every time; the rotation is left
// out.
//
// One warp computes one query (forward, dq) or key (dk, dv) of one head. It goes through its
// partners, keys or queries, 32 at a time: first each lane takes one partner and forms whole dot
// products, then the lanes share out the head dim and add up the 32 contributions in order. The
// order is fixed, hence the result is deterministic; memory traffic is of no concern here.
// Numerics: everything in f32 from the tensors' values, rounded once when stored.

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

}  // namespace

}  // namespace attention_reference

void launch_reference_attention_forward(cudaStream_t stream, const AttentionForward& op) {
  with_dtype(AttentionForward::kName, op.q.dtype,
             [&]<class T>() { attention_reference::launch_forward<T>(stream, op); });
}

void launch_reference_attend_int8(cudaStream_t stream, const AttendInt8Kv& op) {
  with_dtype(AttendInt8Kv::kName, op.q.dtype,
             [&]<class T>() { attention_reference::launch_forward<T>(stream, op); });
}

const void* attention_reference_module() {
  return reinterpret_cast<const void*>(
      &attention_reference::attention_reference_forward_kernel<float, float, false>);
}

}  // namespace strata::cuda
