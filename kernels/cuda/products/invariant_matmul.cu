// This file computes the matrix products of generation: those whose rows must not depend on how
// many there are. InvariantProducts launches it for few rows, and for any number where cuBLASLt has
// no algorithm with the same bits.
//
// out[m, n] = alpha * sum over k of a[m, k] b[n, k]; a [M, K], b [N, K], rows may be strided.
// bf16: rows of b are the 16 rows of m16n8k16 tensor-core products, rows of a the 8 columns. A warp
// owns 16 rows of b and all the block's rows of a; both come through a ring of stages in shared
// memory by asynchronous copies. Few rows are bound by reading b: the ring keeps 70 KiB and more of
// it under way on each multiprocessor. f32: plain_matmul.cu.
//
// Numerics: from zero, in ascending k, 16 at a time by one tensor-core product each, in f32;
// multiplied by alpha and rounded once. That is the order of every algorithm of cuBLASLt that does
// not split K, so those can take over where there are more rows. K that is no multiple of 16 is
// continued with zeros.
//
// Measured on one H200 (docs/measurements/kernels.md).
// Naive version: plain_matmul.cu, whose f32 sums are of single products.

#include <cuda_bf16.h>

#include "kernels/cuda/common/chain.cuh"
#include "kernels/cuda/common/copy_async.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/products/invariant_tiles.h"
#include "strata/base/narrow.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 32 * InvariantTile::kWarps;
constexpr int kDepth = InvariantTile::kDepth;
constexpr int kChunk = 8;  ///< elements of 16 bytes
constexpr int kChunks = kDepth / kChunk;
using Tile = SharedTile<kDepth>;

template <class Out>
struct Params {
  Rows<const __nv_bfloat16> a, b;
  Rows<Out> out;
  int m, n, k;
  float alpha;
};

/// Brings one chunk of a row to shared memory, and zeros where there is none.
template <bool kWide>
__device__ __forceinline__ void bring_chunk(std::uint32_t to, const __nv_bfloat16* row, int column,
                                            int columns, bool valid) {
  if constexpr (kWide) {
    valid = valid && column < columns;
    copy_async_16(to, valid ? row + column : row, valid);
  } else {
    std::uint32_t words[kChunk / 2];
#pragma unroll
    for (int i = 0; i < kChunk / 2; ++i) {
      const auto bits = [&](int at) -> std::uint32_t {
        return valid && at < columns ? __bfloat16_as_ushort(row[at]) : 0;
      };
      words[i] = bits(column + 2 * i) | bits(column + 2 * i + 1) << 16;
    }
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]),
                 "r"(words[2]), "r"(words[3])
                 : "memory");
  }
}

/// Brings columns [first, first + kDepth) of `count` rows from `begin` on.
template <bool kWide, int kCount>
__device__ __forceinline__ void bring(std::uint32_t tile, const Rows<const __nv_bfloat16>& from,
                                      int begin, int end, int first, int columns) {
  static_assert(kCount * kChunks % kThreads == 0);
  constexpr int kPieces = kCount * kChunks / kThreads;
  constexpr int kUnrolled = kWide ? kPieces : 1;
#pragma unroll kUnrolled
  for (int i = 0; i < kPieces; ++i) {
    const int piece = i * kThreads + static_cast<int>(threadIdx.x);
    const int row = piece / kChunks;
    const int chunk = piece % kChunks;
    const bool valid = begin + row < end;
    bring_chunk<kWide>(tile + Tile::offset(row, chunk), from.row(valid ? begin + row : begin),
                       first + chunk * kChunk, columns, valid);
  }
}

/// A block computes 32 columns of `out`, in 8 * kBlocks rows of it.
template <int kBlocks, bool kWide, class Out>
__global__ void __launch_bounds__(kThreads) invariant_matmul(const Params<Out> p) {
  begin_chained();
  constexpr int kRows = 8 * kBlocks;
  constexpr int kStages = InvariantTile::stages(kRows);
  constexpr std::uint32_t kStageBytes = InvariantTile::stage_bytes(kRows);
  constexpr std::uint32_t kBytesOfB = InvariantTile::kRowsOfB * InvariantTile::kRowBytes;
  extern __shared__ __align__(1024) unsigned char shared[];
  const std::uint32_t ring = shared_address(shared);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int n_begin = static_cast<int>(blockIdx.x) * InvariantTile::kRowsOfB;
  const int m_begin = static_cast<int>(blockIdx.y) * kRows;
  const int steps = (p.k + kDepth - 1) / kDepth;

  const auto bring_stage = [&](int step) {
    if (step < steps) {
      const std::uint32_t stage = ring + step % kStages * kStageBytes;
      bring<kWide, InvariantTile::kRowsOfB>(stage, p.b, n_begin, p.n, step * kDepth, p.k);
      bring<kWide, kRows>(stage + kBytesOfB, p.a, m_begin, p.m, step * kDepth, p.k);
    }
    end_copy_group();  // also of nothing, so that the groups can be counted
  };

  float sums[kBlocks][4] = {};
#pragma unroll
  for (int step = 0; step < kStages - 1; ++step) bring_stage(step);
  for (int step = 0; step < steps; ++step) {
    wait_for_copy_groups<kStages - 2>();
    __syncthreads();  // this stage is there, and nobody reads the one before any more
    bring_stage(step + kStages - 1);
    const std::uint32_t stage = ring + step % kStages * kStageBytes;
    const std::uint32_t of_b =
        stage + warp * 16 * InvariantTile::kRowBytes + Tile::lane_offset_a(lane);
    // With 8 rows one load brings two steps of k, else two blocks of rows.
    const std::uint32_t of_a =
        stage + kBytesOfB +
        (kBlocks == 1 ? Tile::offset(lane & 7, lane >> 3) : Tile::lane_offset_b(lane));
#pragma unroll
    for (int k = 0; k < kDepth / 16; k += 2) {
      Bf16Pair first[4];
      Bf16Pair second[4];
      load_matrices(first, of_b ^ (k << 5));
      load_matrices(second, of_b ^ ((k + 1) << 5));
      if constexpr (kBlocks == 1) {
        Bf16Pair rows[4];
        load_matrices(rows, of_a ^ (k << 5));
        multiply_accumulate(sums[0], first, rows[0], rows[1]);
        multiply_accumulate(sums[0], second, rows[2], rows[3]);
      } else {
        Bf16Pair rows[2][kBlocks / 2][4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int block = 0; block < kBlocks / 2; ++block) {
            load_matrices(rows[half][block],
                          (of_a ^ ((k + half) << 5)) + block * 16 * InvariantTile::kRowBytes);
          }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int block = 0; block < kBlocks / 2; ++block) {
            const Bf16Pair(&of)[4] = rows[half][block];
            multiply_accumulate(sums[2 * block], half == 0 ? first : second, of[0], of[1]);
            multiply_accumulate(sums[2 * block + 1], half == 0 ? first : second, of[2], of[3]);
          }
        }
      }
    }
  }

#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int m = m_begin + block * 8 + lane % 4 * 2 + (i & 1);
      const int n = n_begin + warp * 16 + lane / 4 + (i >> 1) * 8;
      if (m < p.m && n < p.n) p.out.row(m)[n] = narrow_to<Out>(sums[block][i] * p.alpha);
    }
  }
}

template <int kBlocks, bool kWide, class Out>
void launch_tiles(cudaStream_t stream, const Matmul& op) {
  constexpr int kRows = 8 * kBlocks;
  const Params<Out> params{.a = Rows<const __nv_bfloat16>(op.a),
                           .b = Rows<const __nv_bfloat16>(op.b),
                           .out = Rows<Out>(op.out),
                           .m = narrow<int>(op.m()),
                           .n = narrow<int>(op.n()),
                           .k = narrow<int>(op.k()),
                           .alpha = static_cast<float>(op.alpha)};
  launch({.name = Matmul::kName,
          .stream = stream,
          .grid = dim3(blocks_for(op.n(), InvariantTile::kRowsOfB), blocks_for(op.m(), kRows)),
          .block = kThreads,
          .shared_bytes = InvariantTile::shared_bytes(kRows),
          .chained = true},
         invariant_matmul<kBlocks, kWide, Out>, params);
}

template <bool kWide, class Out>
void launch_rows(cudaStream_t stream, const Matmul& op) {
  if (op.m() <= 8) return launch_tiles<1, kWide, Out>(stream, op);
  if (op.m() <= 16) return launch_tiles<2, kWide, Out>(stream, op);
  if (op.m() <= 32) return launch_tiles<4, kWide, Out>(stream, op);
  launch_tiles<8, kWide, Out>(stream, op);
}

}  // namespace

void launch_invariant_matmul(cudaStream_t stream, const Matmul& op) {
  if (op.a.dtype != DType::kBF16 || op.k() == 0) return launch_plain_matmul(stream, op);
  with_dtype(op.kName, op.out.dtype, [&]<class Out>() {
    if (is_wide(op.a.dtype, op.k(), {op.a, op.b})) {
      launch_rows<true, Out>(stream, op);
    } else {
      launch_rows<false, Out>(stream, op);
    }
  });
}

const void* invariant_matmul_module() {
  return reinterpret_cast<const void*>(&invariant_matmul<1, true, __nv_bfloat16>);
}

}  // namespace strata::cuda
