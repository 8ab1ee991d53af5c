// This file computes RMSNorm of single heads on CUDA, forward and backward; CudaKernels launches
// both through operators.h. It takes bf16 and f32, heads of any width and alignment, and gives the
// same bits in every run; the backward's operator brings the workspace.
//
// y = x * rstd * (weight + offset) with rstd = 1 / sqrt(mean(x^2) + eps); with xhat = x * rstd and
// g = (weight + offset) * dy:
//   dx = rstd * (g - xhat * mean(g * xhat)),  d_weight += sum over tokens and heads of dy * xhat.
//
// Shapes: x, y, dy, dx [N, heads, D], rows may be strided; weight and d_weight [D]; rstd [N,
// heads]. Tile: a warp takes a head, and reads it a second time, from the caches, once it knows the
// sum. In backward, block i of at most 256 takes the i-th run of heads, and its four warps take
// turns; each keeps its sums of d_weight in shared memory. The sums of the blocks go to the
// workspace, and add_partial_rows() adds them. Numerics: f32. Sums over a head: fixed tree.
// d_weight: ascending heads of a warp, then ascending warps, then partial_rows.cu: fixed for given
// N and heads, and another order than the CPU's. Naive version: kernels/cpu.

#include "kernels/cuda/common/chain.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/norm_pieces.cuh"
#include "kernels/cuda/rows/partial_rows.h"

namespace strata::cuda {
namespace {

constexpr int kForwardWarps = 8;
constexpr int kBackwardWarps = 4;

/// The heads that a launch covers, numbered token by token.
struct Heads {
  std::int64_t count;  ///< of all tokens
  int of_token;
  int size;  ///< D
};

/// Returns where a head of a tensor begins.
template <class T>
__device__ __forceinline__ T* head_at(const Rows<T>& rows, const Heads& heads, std::int64_t head) {
  return rows.row(head / heads.of_token) + head % heads.of_token * heads.size;
}

__device__ __forceinline__ float warp_sum(float value) {
  return warp_reduce(Sum<float>{value}, Add<float>{}).value;
}

template <class T>
struct Forward {
  Rows<const T> x;
  const T* weight;
  Rows<T> y;
  float* rstd;  ///< may be null
  float eps;
  float offset;  ///< of weights
};

template <class T, int W>
__global__ void __launch_bounds__(kForwardWarps* kWarp)
    head_norm_forward(Forward<T> p, Heads heads) {
  begin_chained();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t head =
      static_cast<std::int64_t>(blockIdx.x) * kForwardWarps + static_cast<int>(threadIdx.x) / kWarp;
  if (head >= heads.count) return;
  const T* x = head_at(p.x, heads, head);
  float values[W];
  float squares = 0;
  for (int c = lane * W; c < heads.size; c += kWarp * W) {
    load(x + c, values);
    add_squares(values, squares);
  }
  const float rstd = rstd_of(warp_sum(squares), heads.size, p.eps);
  if (lane == 0 && p.rstd != nullptr) p.rstd[head] = rstd;
  T* y = head_at(p.y, heads, head);
  for (int c = lane * W; c < heads.size; c += kWarp * W) {
    float weight[W];
    load(x + c, values);
    load(p.weight + c, weight);
    add_offset(weight, p.offset);
    normalise(values, weight, rstd);
    store(y + c, values);
  }
}

template <class T>
struct Backward {
  Rows<const T> dy;
  Rows<const T> x;
  const T* weight;
  const float* rstd;
  Rows<T> dx;
  float* workspace;  ///< [gridDim.x, D]
  std::int64_t heads_per_block;
  float offset;  ///< of weights
};

extern __shared__ __align__(16) unsigned char shared_memory[];

/// Writes dx of one head, and adds its part to d_weight of this warp.
template <class T, int W>
__device__ __forceinline__ void differentiate_head(const Backward<T>& p, const Heads& heads,
                                                   std::int64_t head, float* d_weight) {
  const int first = static_cast<int>(threadIdx.x) % kWarp * W;
  const T* dy = head_at(p.dy, heads, head);
  const T* x = head_at(p.x, heads, head);
  T* dx = head_at(p.dx, heads, head);
  const float rstd = p.rstd[head];
  float g[W];
  float values[W];
  float weight[W];
  float dot = 0;
  for (int c = first; c < heads.size; c += kWarp * W) {
    load(dy + c, g);
    load(x + c, values);
    load(p.weight + c, weight);
    add_offset(weight, p.offset);
#pragma unroll
    for (int i = 0; i < W; ++i) dot += (weight[i] * g[i]) * (values[i] * rstd);
  }
  const float mean = warp_sum(dot) / static_cast<float>(heads.size);
  for (int c = first; c < heads.size; c += kWarp * W) {
    load(dy + c, g);
    load(x + c, values);
    load(p.weight + c, weight);
    add_offset(weight, p.offset);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float xhat = values[i] * rstd;
      d_weight[c + i] += g[i] * xhat;
      g[i] = rstd * (weight[i] * g[i] - xhat * mean);
    }
    store(dx + c, g);
  }
}

template <class T, int W>
__global__ void __launch_bounds__(kBackwardWarps* kWarp)
    head_norm_backward(Backward<T> p, Heads heads) {
  auto* sums = reinterpret_cast<float*>(shared_memory);  // [kBackwardWarps, D]
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int i = static_cast<int>(threadIdx.x); i < kBackwardWarps * heads.size;
       i += static_cast<int>(blockDim.x)) {
    sums[i] = 0;
  }
  __syncthreads();
  const std::int64_t begin = blockIdx.x * p.heads_per_block;
  const std::int64_t end = min(begin + p.heads_per_block, heads.count);
  for (std::int64_t head = begin + warp; head < end; head += kBackwardWarps) {
    differentiate_head<T, W>(p, heads, head, sums + warp * heads.size);
  }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < heads.size; c += static_cast<int>(blockDim.x)) {
    float sum = sums[c];
    for (int w = 1; w < kBackwardWarps; ++w) sum += sums[w * heads.size + c];
    p.workspace[static_cast<std::int64_t>(blockIdx.x) * heads.size + c] = sum;
  }
}

Heads heads_of(const ConstTensorView& x) {
  return {.count = x.rows() * x.shape[1],
          .of_token = static_cast<int>(x.shape[1]),
          .size = static_cast<int>(x.shape[2])};
}

}  // namespace

void enqueue(const Context& context, const HeadNormForward& op) {
  const Heads heads = heads_of(op.x);
  const bool wide = is_wide(op.x.dtype, heads.size, {op.x, op.weight, op.y});
  with_dtype_and_width(op.kName, op.x.dtype, wide, [&]<class T, int W>() {
    const Launch where{.name = op.kName,
                       .stream = context.stream,
                       .grid = blocks_for(heads.count, kForwardWarps),
                       .block = kForwardWarps * kWarp};
    launch(chained(where), head_norm_forward<T, W>,
           Forward<T>{.x = Rows<const T>(op.x),
                      .weight = data<T>(op.weight),
                      .y = Rows<T>(op.y),
                      .rstd = data<float>(op.rstd),
                      .eps = static_cast<float>(op.eps),
                      .offset = static_cast<float>(op.offset)},
           heads);
  });
}

void enqueue(const Context& context, const HeadNormBackward& op) {
  const Heads heads = heads_of(op.x);
  if (heads.count == 0 || heads.size == 0) return;
  const std::int64_t per_block =
      (heads.count + HeadNormBackward::kWorkspaceRows - 1) / HeadNormBackward::kWorkspaceRows;
  const unsigned blocks = blocks_for(heads.count, per_block);
  const bool wide = is_wide(op.x.dtype, heads.size, {op.dy, op.x, op.weight, op.dx});
  with_dtype_and_width(op.kName, op.x.dtype, wide, [&]<class T, int W>() {
    const Launch where{
        .name = op.kName,
        .stream = context.stream,
        .grid = blocks,
        .block = kBackwardWarps * kWarp,
        .shared_bytes = static_cast<std::size_t>(kBackwardWarps * heads.size) * sizeof(float)};
    launch(where, head_norm_backward<T, W>,
           Backward<T>{.dy = Rows<const T>(op.dy),
                       .x = Rows<const T>(op.x),
                       .weight = data<T>(op.weight),
                       .rstd = data<float>(op.rstd),
                       .dx = Rows<T>(op.dx),
                       .workspace = data<float>(op.workspace),
                       .heads_per_block = per_block,
                       .offset = static_cast<float>(op.offset)},
           heads);
  });
  add_partial_rows(
      op.kName, context.stream,
      {.data = data<float>(op.workspace), .rows = static_cast<int>(blocks), .columns = heads.size},
      data<float>(op.d_weight));
}

const void* head_norm_module() {
  return reinterpret_cast<const void*>(&head_norm_forward<float, 1>);
}

}  // namespace strata::cuda
