// This file computes what the backwards of attention need before and after their products;
// flash_backward.cu and hopper_backward.cu launch it. Before: delta = rowsum(d_o * o), with d_o, o
// [Nq, H, D] bf16, D 64, 128 or 256, and delta [H, Nq] f32, in one pass over d_o and o with
// products and sums in f32. After, where dq was summed in f32: dq, scaled, turned back if there is
// a rotation, and rounded once.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/attention_segments.cuh"
#include "kernels/cuda/attention/attention_tensor_core.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {

namespace {

constexpr int kThreads = 256;

struct DeltaParams {
  HeadRows<const std::uint16_t> o, d_o;
  float* delta;
  float* dq_sum;  ///< null if there is none
  std::int64_t query_rows;
  int heads;
};

__device__ float dot_of_pairs(Bf16Pair a, Bf16Pair b, float sum) {
  sum = fmaf(__uint_as_float(a << 16), __uint_as_float(b << 16), sum);
  return fmaf(__uint_as_float(a & 0xffff0000u), __uint_as_float(b & 0xffff0000u), sum);
}

/// Computes delta with kHeadDim / 8 threads, 16 bytes each, for one head of one row.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads) attention_delta_kernel(const DeltaParams p) {
  constexpr int kLanes = kHeadDim / 8;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t row = thread / kLanes / p.heads;
  const int head = static_cast<int>(thread / kLanes % p.heads);
  const int column = static_cast<int>(thread % kLanes) * 8;
  float sum = 0;
  if (row < p.query_rows) {
    const uint4 a = *reinterpret_cast<const uint4*>(p.d_o.row(row, head) + column);
    const uint4 b = *reinterpret_cast<const uint4*>(p.o.row(row, head) + column);
    sum = dot_of_pairs(a.x, b.x, sum);
    sum = dot_of_pairs(a.y, b.y, sum);
    sum = dot_of_pairs(a.z, b.z, sum);
    sum = dot_of_pairs(a.w, b.w, sum);
    if (p.dq_sum != nullptr) {
      auto* const to = reinterpret_cast<float4*>(p.dq_sum + thread * 8);
      to[0] = to[1] = make_float4(0, 0, 0, 0);
    }
  }
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (row < p.query_rows && column == 0) p.delta[head * p.query_rows + row] = sum;
}

struct RoundParams {
  const float* dq_sum;
  HeadRows<__nv_bfloat16> dq;
  Rotation rotation;
  std::int64_t rows;
  int heads;
  float scale;
};

/// Rounds dq. A thread takes 8 numbers of a head's lower half and those that they turn with.
__global__ void __launch_bounds__(kThreads) attention_round_dq_kernel(const RoundParams p) {
  constexpr int kWidth = 8;
  const int half = p.dq.head_dim / 2;
  const int pieces = half / kWidth;
  const std::int64_t piece = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t row = piece / pieces / p.heads;
  if (row >= p.rows) return;
  const int head = static_cast<int>(piece / pieces % p.heads);
  const int column = static_cast<int>(piece % pieces) * kWidth;
  const float* const from = p.dq_sum + (row * p.heads + head) * p.dq.head_dim + column;
  float low[kWidth];
  float high[kWidth];
  load(from, low);
  load(from + half, high);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    low[i] *= p.scale;
    high[i] *= p.scale;
  }
  if (p.rotation.positions != nullptr) {
    const std::int64_t angles = std::int64_t{p.rotation.positions[row]} * half + column;
    float cos[kWidth];
    float sin[kWidth];
    load(p.rotation.cos + angles, cos);
    load(p.rotation.sin + angles, sin);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float turned = low[i] * cos[i] + high[i] * sin[i];
      high[i] = high[i] * cos[i] - low[i] * sin[i];
      low[i] = turned;
    }
  }
  __nv_bfloat16* const to = p.dq.row(row, head) + column;
  store(to, low);
  store(to + half, high);
}

template <int kHeadDim>
void launch_delta(cudaStream_t stream, const AttentionBackward& op) {
  const DeltaParams params{.o = head_rows<const std::uint16_t>(op.o),
                           .d_o = head_rows<const std::uint16_t>(op.d_o),
                           .delta = op.delta.as<float>(),
                           .dq_sum = op.dq_sum ? op.dq_sum.as<float>() : nullptr,
                           .query_rows = op.q.shape[0],
                           .heads = narrow<int>(op.q.shape[1])};
  launch({.name = AttentionBackward::kName,
          .stream = stream,
          .grid = blocks_for(op.q.shape[0] * op.q.shape[1] * (kHeadDim / 8), kThreads),
          .block = kThreads},
         attention_delta_kernel<kHeadDim>, params);
}

}  // namespace

void launch_attention_delta(cudaStream_t stream, const AttentionBackward& op) {
  switch (op.q.shape[2]) {
    case 64: return launch_delta<64>(stream, op);
    case 128: return launch_delta<128>(stream, op);
    default: return launch_delta<256>(stream, op);
  }
}

void launch_round_dq(cudaStream_t stream, const AttentionBackward& op) {
  const RoundParams params{.dq_sum = op.dq_sum.as<float>(),
                           .dq = head_rows<__nv_bfloat16>(op.dq),
                           .rotation = make_rotation(op.rotation),
                           .rows = op.dq.shape[0],
                           .heads = narrow<int>(op.dq.shape[1]),
                           .scale = static_cast<float>(op.scale)};
  launch({.name = AttentionBackward::kName,
          .stream = stream,
          .grid = blocks_for(op.dq.shape.elements() / 16, kThreads),
          .block = kThreads},
         attention_round_dq_kernel, params);
}

const void* attention_delta_module() {
  return reinterpret_cast<const void*>(&attention_delta_kernel<128>);
}

}  // namespace strata::cuda
