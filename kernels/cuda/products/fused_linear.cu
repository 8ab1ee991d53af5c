// This file computes linear layers of few rows in one kernel each, with the norm before and the
// SwiGLU or the residual addition after: generation of a single stream, which is bound by reading
// weights. CudaKernels launches it through operators.h. What does not fit runs part by part.
//
// out = alpha f(x) b^T, or residual + that, or silu(its first half) * its second half; f is the
// RMSNorm (of x + added, which is written) or nothing. x [M, K]; b [N, K]; out [M, N] or [M, N /
// 2]; bf16, M at most 4, K a multiple of 8.
//
// There are as many blocks as live at a time, and each takes one tile of 32 rows of b (before
// SwiGLU 16 of each half) after another. Each of its 4 warps has 8 of them, which it brings by
// asynchronous copies to a ring of its own in shared memory, without a pause between tiles. The
// ring is filled before the kernel before this one has ended (chain.cuh), so memory is busy while
// that ends and f(x) is made. Every block makes f(x) for itself, once, and keeps it in shared
// memory: that is a few KiB, read from the second-level cache.
//
// Numerics: f(x) is rounded to bf16, by the arithmetic of norm.cu and added up in its order.
// Products as invariant_matmul.cu: from zero, in ascending k, 16 at a time by one tensor-core
// product each, rounded to bf16 before anything else is done with them. So the bits are those of
// the parts alone. Rows of x are the 16 rows of m16n8k16 here, rows of b the 8 columns.
//
// The plain version are the parts.

#include <cuda_bf16.h>

#include <algorithm>

#include "kernels/cuda/common/chain.cuh"
#include "kernels/cuda/common/copy_async.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/products/fused_linear.cuh"
#include "kernels/cuda/products/fused_tiles.h"
#include "kernels/cuda/rows/norm_pieces.cuh"
#include "kernels/cuda/rows/swiglu_pieces.cuh"
#include "strata/base/narrow.h"

namespace strata::cuda {

namespace fused_linear {

namespace {

constexpr int kRowsOfWarp = FusedTile::kRowsOfWarp;
constexpr int kDepth = FusedTile::kDepth;
using Tile = SharedTile<kDepth>;
static_assert(FusedTile::kStageBytes == kRowsOfWarp * Tile::kRowBytes);

/// Brings the rows of b of a warp, tile after tile, to its ring.
template <int kStages, int kWarpsOfOut>
class Ring {
 public:
  __device__ Ring(const Params& p, unsigned char* ring, int warp, int lane)
      : p_(p), ring_(shared_address(ring)), warp_(warp), lane_(lane) {
    begin_tile(static_cast<int>(blockIdx.x));
  }
  /// Returns the first row of a warp's results in a tile.
  __device__ static int first_row(int tile, int warp) {
    return (tile * kWarpsOfOut + warp % kWarpsOfOut) * kRowsOfWarp;
  }
  /// Starts to bring the next stage, if there is one.
  __device__ __forceinline__ void bring() {
    if (tile_ < p_.tiles) {
      const std::uint32_t stage = ring_ + brought_ % kStages * FusedTile::kStageBytes;
      const int column = step_ * kDepth + lane_ * W;  // a row's part of a stage are 32 pieces
      static_assert(kDepth == kWarp * W);
#pragma unroll
      for (int row = 0; row < kRowsOfWarp; ++row) {
        const bool valid = row < rows_left_ && column < p_.k;
        copy_async_16_once(stage + Tile::offset(row, lane_),
                           valid ? b_ + row * p_.b.stride + column : p_.b.data, valid);
      }
      ++brought_;
      if (++step_ == p_.steps) begin_tile(tile_ + static_cast<int>(gridDim.x));
    }
    end_copy_group();  // also of nothing, so that the groups can be counted
  }
  /// Waits for the oldest stage that was not used, and has the next one brought in place of the one
  /// before it. Returns where it is.
  __device__ __forceinline__ std::uint32_t next() {
    wait_for_copy_groups<kStages - 2>();
    __syncwarp();  // it is there, and no lane reads the one before any more
    bring();
    return ring_ + used_++ % kStages * FusedTile::kStageBytes;
  }

 private:
  __device__ void begin_tile(int tile) {
    tile_ = tile;
    step_ = 0;
    const int first = first_row(tile, warp_);
    rows_left_ = p_.columns - first;
    // Warps of the upper half have the second half's rows before SwiGLU.
    b_ = p_.b.row(first + (warp_ < kWarpsOfOut ? 0 : p_.columns));
  }

  const Params& p_;
  const std::uint32_t ring_;
  const int warp_, lane_;
  int tile_, step_, rows_left_;
  const T* b_;
  unsigned brought_ = 0;
  unsigned used_ = 0;
};

/// Two neighbouring results of a row: lane 4 g + t has columns 2 t and 2 t + 1 of row g.
class Pair {
 public:
  /// Asks for the residual, which is needed later.
  __device__ Pair(const Params& p, int m, int n) : p_(p), m_(m), n_(n) {
    if (p.residual.data == nullptr || m >= p.m) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (n + i < p.columns) residual_[i] = p.residual.row(m)[n + i];
    }
  }
  __device__ __forceinline__ void write(T (&values)[2]) const {
    if (m_ >= p_.m) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (n_ + i >= p_.columns) continue;
      if (p_.residual.data != nullptr) {
        values[i] = narrow_to<T>(widen(residual_[i]) + widen(values[i]));
      }
      p_.out.row(m_)[n_ + i] = values[i];
    }
  }

 private:
  const Params& p_;
  const int m_, n_;
  T residual_[2];
};

/// gate = activation(gate) * up
__device__ __forceinline__ void gated(Activation activation, float (&gate)[2],
                                      const float (&up)[2]) {
  switch (activation) {
    case Activation::kSilu: return swiglu<T, Activation::kSilu>(gate, up);
    case Activation::kGeluTanh: return swiglu<T, Activation::kGeluTanh>(gate, up);
    case Activation::kGelu: return swiglu<T, Activation::kGelu>(gate, up);
  }
}

template <int kStages, bool kNorm, bool kGated>
__global__ void __launch_bounds__(kThreads) fused_linear(const Params p) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  constexpr int kWarpsOfOut = kGated ? kWarps / 2 : kWarps;
  let_next_start();
  Ring<kStages, kWarpsOfOut> ring(p, shared + warp * FusedTile::ring_bytes(kStages), warp, lane);
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) ring.bring();

  T* const rows = reinterpret_cast<T*>(shared + kWarps * FusedTile::ring_bytes(kStages));
  const int row_bytes = static_cast<int>(FusedTile::input_row_bytes(p.k));
  const int row_elements = row_bytes / FusedTile::kElementBytes;
  if constexpr (kNorm) {
    const NormWeights weights(p);
    wait_for_previous();
    bring_rows<4>(p, rows, row_elements);
    __syncthreads();
    normalise_rows(p, weights, rows, row_elements);
  } else {
    wait_for_previous();
    bring_rows<12>(p, rows, row_elements);
  }
  __syncthreads();  // all threads may read f(x)

  // Matrix i of a load are columns 8 i to 8 i + 7 of 8 rows; rows that are not there are zeros.
  const bool is_there = lane % 8 < p.m;
  const std::uint32_t of_x =
      shared_address(rows) + (is_there ? lane % 8 * row_bytes + lane / 8 * 16 : p.m * row_bytes);
  const std::uint32_t moves = is_there ? ~0u : 0u;
  const int m = lane / 4;
  for (int tile = static_cast<int>(blockIdx.x); tile < p.tiles;
       tile += static_cast<int>(gridDim.x)) {
    const Pair pair(p, m, ring.first_row(tile, warp) + lane % 4 * 2);
    float sums[4] = {};
    for (int step = 0; step < p.steps; ++step) {
      const std::uint32_t of_b = ring.next() + Tile::offset(lane % 8, lane / 8);
#pragma unroll
      for (int k = 0; k < kDepth / 32; ++k) {
        Bf16Pair weights[4];
        Bf16Pair inputs[4];
        load_matrices(weights, of_b ^ (k << 6));
        load_matrices(inputs,
                      of_x + (static_cast<std::uint32_t>(step * kDepth * 2 + k * 64) & moves));
        const Bf16Pair first[4] = {inputs[0], 0, inputs[1], 0};
        const Bf16Pair second[4] = {inputs[2], 0, inputs[3], 0};
        multiply_accumulate(sums, first, weights[0], weights[1]);
        multiply_accumulate(sums, second, weights[2], weights[3]);
      }
    }
    T values[2] = {narrow_to<T>(sums[0] * p.alpha), narrow_to<T>(sums[1] * p.alpha)};
    if constexpr (kGated) {
      __shared__ float ups[2][kMostRows][FusedTile::kRowsOfB / 2];  // of two tiles, in turns
      auto& up_of = ups[tile / static_cast<int>(gridDim.x) % 2];
      const int column = warp % kWarpsOfOut * kRowsOfWarp + lane % 4 * 2;
      if (warp >= kWarpsOfOut && m < p.m) {
        up_of[m][column] = widen(values[0]);
        up_of[m][column + 1] = widen(values[1]);
      }
      __syncthreads();
      if (warp >= kWarpsOfOut || m >= p.m) continue;
      float gate[2] = {widen(values[0]), widen(values[1])};
      const float up[2] = {up_of[m][column], up_of[m][column + 1]};
      gated(p.activation, gate, up);
      values[0] = narrow_to<T>(gate[0]);
      values[1] = narrow_to<T>(gate[1]);
    }
    pair.write(values);
  }
}

FusedDevice this_device() {
  static const FusedDevice device{.block_bytes = most_shared_bytes(),
                                  .multiprocessors = multiprocessors()};
  return device;
}

/// Returns how many stages the kernel has for the layer, or 0 if it cannot take it.
int stages_for(const FusedLinear& op) {
  const Matmul& product = op.product;
  if (product.a.dtype != DType::kBF16 || product.m() > kMostRows || product.k() == 0 ||
      !is_wide(DType::kBF16, product.k(),
               {product.a, product.b, op.norm.x, op.norm.residual, op.norm.sum, op.norm.weight})) {
    return 0;
  }
  return FusedTile::stages(product.m(), product.k(), blocks_for(product.n(), FusedTile::kRowsOfB),
                           this_device());
}

template <int kStages, bool kNorm, bool kGated>
void launch_fused(cudaStream_t stream, const FusedLinear& op) {
  const Matmul& product = op.product;
  const TensorView& out = kGated ? op.gate.y : product.out;
  constexpr int kColumns = kGated ? FusedTile::kRowsOfB / 2 : FusedTile::kRowsOfB;
  const Params params{
      .x = Rows<const T>(kNorm ? op.norm.x : product.a),
      .added = Rows<const T>(op.norm.residual),
      .sum = Rows<T>(op.norm.sum),
      .norm_weight = data<T>(op.norm.weight),
      .b = Rows<const T>(product.b),
      .residual = Rows<const T>(op.residual.a),
      .out = Rows<T>(out),
      .m = narrow<int>(product.m()),
      .k = narrow<int>(product.k()),
      .columns = narrow<int>(out.shape[1]),
      .tiles = static_cast<int>(blocks_for(out.shape[1], kColumns)),
      .steps = narrow<int>(FusedTile::padded(product.k()) / kDepth),
      .eps = static_cast<float>(op.norm.eps),
      .alpha = static_cast<float>(product.alpha),
      .norm_offset = static_cast<float>(op.norm.offset),
      .activation = op.gate.activation,
      .norm_threads = static_cast<int>(norm_threads(product.k(), W)),
  };
  launch({.name = FusedLinear::kName,
          .stream = stream,
          .grid = std::min(static_cast<unsigned>(params.tiles),
                           static_cast<unsigned>(FusedTile::places(kStages, product.m(),
                                                                   product.k(), this_device()))),
          .block = kThreads,
          .shared_bytes = FusedTile::shared_bytes(kStages, params.m, params.k),
          .chained = true},
         fused_linear<kStages, kNorm, kGated>, params);
}

template <int kStages>
void launch_layer(cudaStream_t stream, const FusedLinear& op) {
  const bool gated = static_cast<bool>(op.gate.y);
  if (op.norm.x) {
    if (gated) return launch_fused<kStages, true, true>(stream, op);
    return launch_fused<kStages, true, false>(stream, op);
  }
  if (gated) return launch_fused<kStages, false, true>(stream, op);
  launch_fused<kStages, false, false>(stream, op);
}

}  // namespace

}  // namespace fused_linear

void enqueue(const Context& context, const FusedLinear& op) {
  static_assert(FusedTile::kLeastStages == 4 && FusedTile::kMostStages == 6);
  switch (fused_linear::stages_for(op)) {
    case 4: return fused_linear::launch_layer<4>(context.stream, op);
    case 5: return fused_linear::launch_layer<5>(context.stream, op);
    case 6: return fused_linear::launch_layer<6>(context.stream, op);
    default: for_each_part(op, [&](const auto& part) { enqueue(context, part); });
  }
}

const void* fused_linear_module() {
  return reinterpret_cast<const void*>(
      &fused_linear::fused_linear<FusedTile::kMostStages, false, false>);
}

}  // namespace strata::cuda
