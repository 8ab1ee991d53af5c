// This file computes the backward of RMSNorm of single heads on CUDA; CudaKernels launches it
// through operators.h. It takes bf16 and f32, heads of any width and alignment, adds to d_weight,
// and gives the same bits in every run; the operator brings the workspace.
//
// With xhat = x * rstd and g = (weight + offset) * dy:
//   dx = rstd * (g - xhat * mean(g * xhat)),  d_weight += sum over tokens and heads of dy * xhat.
//
// Shapes: x, dy, dx [N, heads, D], rows may be strided; weight and d_weight [D]; rstd [N, heads].
// Tile: block i of at most 256 takes the i-th run of heads, and its groups of lanes
// (head_norm_pieces.cuh) take turns. A lane keeps the weights and the sums of d_weight of its
// columns in registers, and asks for the heads of later turns before it computes on this one's. The
// sums of the blocks go to the workspace, and add_partial_rows() adds them. Heads that do not fit
// the registers take a warp each, which keeps its sums in shared memory. Numerics: f32. Sums over a
// head: each lane its columns in ascending order, then a fixed tree. d_weight: ascending heads of a
// group, a tree over the groups of a warp, ascending warps, then partial_rows.cu: fixed for given N
// and heads, and another order than the CPU's. Naive version: kernels/cpu.

#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/head_norm_pieces.cuh"
#include "kernels/cuda/rows/norm_pieces.cuh"
#include "kernels/cuda/rows/partial_rows.h"

namespace strata::cuda {
namespace {

// Two blocks on a multiprocessor: all of the at most 256 run at a time on 128 multiprocessors.
constexpr int kThreads = 512;
constexpr int kBlocks = 2;
constexpr int kWarps = kThreads / kWarp;
constexpr int kTurnsAhead = 2;    ///< for which a group of lanes has asked
constexpr int kNoHead = 1 << 30;  ///< the first one of a lane without columns
constexpr int kRereadWarps = 4;

template <class T>
struct Arguments {
  Rows<const T> dy;
  Rows<const T> x;
  const T* weight;
  const float* rstd;
  Rows<T> dx;
  float* workspace;  ///< [gridDim.x, D]
  std::int64_t heads_per_block;
  float offset;  ///< of weights
  float share;   ///< of a column in a mean: 1 / D
};

/// What a lane holds of a head.
template <class T>
struct Piece {
  Packed<T, kWide<T>> dy;
  Packed<T, kWide<T>> x;
  float rstd;
};

/// The columns of one lane, with their weights and sums of d_weight. Heads are numbered from the
/// block's first one.
template <class T, int kLanes>
struct Columns {
  static constexpr int W = kWide<T>;
  const Arguments<T>& p;
  const Heads& heads;
  const float* rstd;  ///< of the block's first head
  int count;          ///< heads of the block
  int c;              ///< the lane's first column
  float weight[W];
  float d_weight[W];

  /// Asks for the lane's piece of a head; it is zeros if there is none.
  __device__ __forceinline__ void ask(Piece<T>& piece, int head, const HeadPlace& place) const {
    piece = {};
    if (head >= count) return;
    piece.dy = load_packed<T, W>(place.in(p.dy, heads) + c);
    piece.x = load_packed<T, W>(place.in(p.x, heads) + c);
    piece.rstd = rstd[head];
  }
  /// Writes dx of a head if there is one, and adds to d_weight.
  __device__ __forceinline__ void differentiate(const Piece<T>& piece, int head,
                                                const HeadPlace& place) {
    float dy[W];
    float xhat[W];
    unpack(piece.dy, dy);
    unpack(piece.x, xhat);
    float dot = 0;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      xhat[i] *= piece.rstd;
      dot += (weight[i] * dy[i]) * xhat[i];
    }
    const float mean = group_sum<kLanes>(dot) * p.share;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      d_weight[i] += dy[i] * xhat[i];
      dy[i] = piece.rstd * (weight[i] * dy[i] - xhat[i] * mean);
    }
    if (head < count) store_piece(place.in(p.dx, heads) + c, dy);
  }
};

/// Takes aligned heads of at most kLanes pieces. `turn` is the step from a head of a group to its
/// next, and `turns_ahead` to the head that it asks for meanwhile.
template <class T, int kLanes>
__global__ void __launch_bounds__(kThreads, kBlocks)
    head_norm_backward_in_registers(Arguments<T> p, Heads heads, HeadStep turn,
                                    HeadStep turns_ahead) {
  constexpr int W = kWide<T>;
  constexpr int kGroups = kThreads / kLanes;
  __shared__ float sums[kWarps][kLanes * W];
  const int c = static_cast<int>(threadIdx.x) % kLanes * W;
  const bool owns = c < heads.size;
  const std::int64_t begin = blockIdx.x * p.heads_per_block;
  const auto count = static_cast<int>(min(p.heads_per_block, heads.count - begin));
  Columns<T, kLanes> columns{p, heads, p.rstd + begin, count, c, {}, {}};
  if (owns) load(p.weight + c, columns.weight);
  add_offset(columns.weight, p.offset);

  const int group = static_cast<int>(threadIdx.x) / kLanes;
  HeadPlace asked(heads, begin + group);
  int head = owns ? group : kNoHead;
  Piece<T> ahead[kTurnsAhead];
#pragma unroll
  for (int i = 0; i < kTurnsAhead; ++i) {
    columns.ask(ahead[i], head + i * kGroups, asked);
    turn.advance(asked, heads);
  }
  // All groups take as many turns, with or without a head: a warp adds up together.
  for (int first = 0; first < count; first += kTurnsAhead * kGroups) {
#pragma unroll
    for (int i = 0; i < kTurnsAhead; ++i) {
      const Piece<T> now = ahead[i];
      columns.ask(ahead[i], head + kTurnsAhead * kGroups, asked);
      HeadPlace place = asked;
      turns_ahead.retreat(place, heads);
      columns.differentiate(now, head, place);
      turn.advance(asked, heads);
      head += kGroups;
    }
  }

  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int i = 0; i < W; ++i) {
    float& sum = columns.d_weight[i];
#pragma unroll
    for (int distance = kWarp / 2; distance >= kLanes; distance /= 2) {
      sum += __shfl_xor_sync(kAllLanes, sum, distance);
    }
    if (lane < kLanes) sums[threadIdx.x / kWarp][c + i] = sum;
  }
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  if (column >= heads.size) return;
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += sums[w][column];
  p.workspace[static_cast<std::int64_t>(blockIdx.x) * heads.size + column] = sum;
}

extern __shared__ __align__(16) unsigned char shared_memory[];

/// Writes dx of one head, and adds its part to d_weight of this warp.
template <class T, int W>
__device__ __forceinline__ void differentiate_head(const Arguments<T>& p, const Heads& heads,
                                                   std::int64_t head, float* d_weight) {
  const int first = static_cast<int>(threadIdx.x) % kWarp * W;
  const HeadPlace place(heads, head);
  const T* dy = place.in(p.dy, heads);
  const T* x = place.in(p.x, heads);
  T* dx = place.in(p.dx, heads);
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
  const float mean = group_sum<kWarp>(dot) / static_cast<float>(heads.size);
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

/// Takes heads of any width and alignment, a warp each.
template <class T, int W>
__global__ void __launch_bounds__(kRereadWarps* kWarp)
    head_norm_backward_reread(Arguments<T> p, Heads heads) {
  auto* sums = reinterpret_cast<float*>(shared_memory);  // [kRereadWarps, D]
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int i = static_cast<int>(threadIdx.x); i < kRereadWarps * heads.size;
       i += static_cast<int>(blockDim.x)) {
    sums[i] = 0;
  }
  __syncthreads();
  const std::int64_t begin = blockIdx.x * p.heads_per_block;
  const std::int64_t end = min(begin + p.heads_per_block, heads.count);
  for (std::int64_t head = begin + warp; head < end; head += kRereadWarps) {
    differentiate_head<T, W>(p, heads, head, sums + warp * heads.size);
  }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < heads.size; c += static_cast<int>(blockDim.x)) {
    float sum = sums[c];
    for (int w = 1; w < kRereadWarps; ++w) sum += sums[w * heads.size + c];
    p.workspace[static_cast<std::int64_t>(blockIdx.x) * heads.size + c] = sum;
  }
}

}  // namespace

void enqueue(const Context& context, const HeadNormBackward& op) {
  const Heads heads = heads_of(op.x);
  if (heads.count == 0 || heads.size == 0) return;
  const std::int64_t per_block =
      (heads.count + HeadNormBackward::kWorkspaceRows - 1) / HeadNormBackward::kWorkspaceRows;
  const unsigned blocks = blocks_for(heads.count, per_block);
  const bool wide = is_wide(op.x.dtype, heads.size, {op.dy, op.x, op.weight, op.dx});
  with_dtype_and_width(op.kName, op.x.dtype, wide, [&]<class T, int W>() {
    const Arguments<T> arguments{.dy = Rows<const T>(op.dy),
                                 .x = Rows<const T>(op.x),
                                 .weight = data<T>(op.weight),
                                 .rstd = data<float>(op.rstd),
                                 .dx = Rows<T>(op.dx),
                                 .workspace = data<float>(op.workspace),
                                 .heads_per_block = per_block,
                                 .offset = static_cast<float>(op.offset),
                                 .share = 1.0f / static_cast<float>(heads.size)};
    Launch where{.name = op.kName, .stream = context.stream, .grid = blocks, .block = kThreads};
    const auto in_registers = [&]<int kLanes>() {
      constexpr int kGroups = kThreads / kLanes;
      launch(where, head_norm_backward_in_registers<T, kLanes>, arguments, heads,
             HeadStep(heads, kGroups), HeadStep(heads, kTurnsAhead * kGroups));
    };
    if (wide && with_lanes(heads.size / W, in_registers)) return;
    where.block = kRereadWarps * kWarp;
    where.shared_bytes = static_cast<std::size_t>(kRereadWarps * heads.size) * sizeof(float);
    launch(where, head_norm_backward_reread<T, W>, arguments, heads);
  });
  if (!op.d_weight) return;
  add_partial_rows(
      op.kName, context.stream,
      {.data = data<float>(op.workspace), .rows = static_cast<int>(blocks), .columns = heads.size},
      data<float>(op.d_weight));
}

const void* head_norm_backward_module() {
  return reinterpret_cast<const void*>(&head_norm_backward_reread<float, 1>);
}

}  // namespace strata::cuda
