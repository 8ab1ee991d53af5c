// This file computes attention where each segment is one query over a cache of int8: generation,
// past the prompt. enqueue() launches it for bf16 with head dims 64 and 128, on any GPU since
// compute capability 8.0, and the reference kernel for all else.
//
// scores = q k^T * k_scale * scale, o = sum(exp(scores - max) v_scale v) / sum(exp(scores - max))
// per head, see AttendInt8Kv. q [N, H, D], o [N, H, D] bf16, k, v [R, K, D] int8, scales [R, K]
// f32; query n sees the keys of segment n alone.
//
// Parts of keys, blocks and warps are those of decode_attention.cu: a block owns 256 keys for one
// kv head, and its 16 query heads are the rows of tensor-core products. But levels go from global
// memory to registers: int8 has no use for ldmatrix, and a lane can choose which columns of a
// product are its own. Of a strip of 16 keys it takes whole runs of 16 bytes for the dots, over
// which all sums go, in an order that q follows, and for the sums of v a run of D / 8 bytes of each
// of its keys. The next keys are asked for as soon as the registers of the last ones are free. They
// become bf16, which has every level exactly, in two operations for each.
//
// Numerics: dots in f32 of exact products; scores, maximum and sum in f32; exp(scores - max) *
// v_scale is rounded to bf16 as the operand of a product, as the probabilities are in
// flash_forward.cu. A scale of NaN makes NaN of what sees it. What becomes of a query depends on
// its keys alone: not on other queries, nor on how many parts those have.
//
// Measured on one H100 (docs/measurements/generation-2026-11-25-overlap.md). The plain version of
// the same is attention_reference.cu.

#include <cuda_runtime.h>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/portable/decode_join.cuh"
#include "kernels/cuda/attention/portable/decode_parts.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/operators.h"

namespace strata::cuda {

namespace {

constexpr int kHeads = DecodeInt8Tile::kHeads;

/// Levels of keys or values, and the scales of their rows and heads.
struct Int8Heads {
  HeadRows<const std::int8_t> levels;
  const float* scales;
  std::int64_t scale_stride;

  __device__ float scale(int row, int head) const { return scales[row * scale_stride + head]; }
};

struct DecodeInt8Params {
  DecodeTask task;
  Int8Heads k, v;
};

/// Returns bytes 0 and 2 of a word, which are levels, as a pair of bf16. A bf16 of 128 to 256 has
/// no fraction: the lower 7 bits are added to 128, from which 128 is taken, or 256 if the level is
/// negative.
__device__ __forceinline__ Bf16Pair pair_of_levels(std::uint32_t word) {
  constexpr std::uint32_t k128 = 0x43004300u;
  constexpr std::uint32_t kMinusOne = 0xbf80bf80u;
  const std::uint32_t raised = (word & 0x007f007fu) | k128;
  const std::uint32_t offset = (word & 0x00800080u) | k128;
  Bf16Pair pair;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pair) : "r"(offset), "r"(kMinusOne), "r"(raised));
  return pair;
}

/// What a lane has of a strip's keys: of keys lane / 4 and 8 more, 16 bytes of every 64.
template <int kHeadDim>
struct KeyPiece {
  static constexpr int kRuns = kHeadDim / 64;
  uint4 levels[2][kRuns];
  float scales[2][2];  ///< of the keys whose scores are the lane's: 2 (lane % 4) and 1, 8, 9 more

  __device__ __forceinline__ void load(const Int8Heads& k, int kv_head, int first_row, int keys,
                                       int lane) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int own = n * 8 + lane / 4;
      const std::int8_t* const row = k.levels.row(first_row + (own < keys ? own : 0), kv_head);
#pragma unroll
      for (int run = 0; run < kRuns; ++run) {
        levels[n][run] = __ldcs(reinterpret_cast<const uint4*>(row + 64 * run + lane % 4 * 16));
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int key = n * 8 + lane % 4 * 2 + i;
        scales[n][i] = k.scale(first_row + (key < keys ? key : 0), kv_head);
      }
    }
  }
};

/// What a lane has of a strip's values: of keys 2 (lane % 4) and 1, 8, 9 more, D / 8 bytes from
/// element lane / 4 * D / 8 on.
template <int kHeadDim>
struct ValuePiece {
  static constexpr int kWords = kHeadDim / 32;
  std::uint32_t levels[2][2][kWords];
  float scales[2][2];  ///< 0 for keys that do not exist

  __device__ __forceinline__ void load(const Int8Heads& v, int kv_head, int first_row, int keys,
                                       int lane) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int key = n * 8 + lane % 4 * 2 + i;
        const int row = first_row + (key < keys ? key : 0);
        const std::int8_t* const from = v.levels.row(row, kv_head) + lane / 4 * (kHeadDim / 8);
        if constexpr (kWords == 4) {
          const uint4 words = __ldcs(reinterpret_cast<const uint4*>(from));
          levels[n][i][0] = words.x;
          levels[n][i][1] = words.y;
          levels[n][i][2] = words.z;
          levels[n][i][3] = words.w;
        } else {
          const uint2 words = __ldcs(reinterpret_cast<const uint2*>(from));
          levels[n][i][0] = words.x;
          levels[n][i][1] = words.y;
        }
        scales[n][i] = key < keys ? v.scale(row, kv_head) : 0.0f;
      }
    }
  }
  /// Returns element `at` of the lane's run for two neighbouring keys, as a pair.
  __device__ __forceinline__ Bf16Pair pair(int n, int at) const {
    const unsigned byte = static_cast<unsigned>(at % 4);
    const unsigned selector = byte | (4 + byte) << 8;
    return pair_of_levels(__byte_perm(levels[n][0][at / 4], levels[n][1][at / 4], selector));
  }
};

/// Loads the lane's part of q: rows lane / 4 and 8 more of the product, and columns in the order of
/// KeyPiece. A row without a head is zero.
template <int kHeadDim>
__device__ __forceinline__ void load_queries(Bf16Pair (&q)[kHeadDim / 16][4],
                                             const DecodeTask& task, const DecodeBlock& block,
                                             int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = half * 8 + lane / 4;
    const bool there = row < block.heads;
    const std::uint16_t* const from = task.q.row(block.query, block.head + (there ? row : 0));
#pragma unroll
    for (int piece = 0; piece < kHeadDim / 32; ++piece) {  // 8 elements: two steps of the product
      const int at = piece / 2 * 64 + lane % 4 * 16 + piece % 2 * 8;
      const uint4 words =
          there ? *reinterpret_cast<const uint4*>(from + at) : make_uint4(0, 0, 0, 0);
      q[2 * piece][half] = words.x;
      q[2 * piece][2 + half] = words.y;
      q[2 * piece + 1][half] = words.z;
      q[2 * piece + 1][2 + half] = words.w;
    }
  }
}

/// Computes the dots of the strip's keys.
template <int kHeadDim>
__device__ __forceinline__ void multiply_keys(float (&s)[2][4],
                                              const Bf16Pair (&q)[kHeadDim / 16][4],
                                              const KeyPiece<kHeadDim>& keys) {
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int run = 0; run < KeyPiece<kHeadDim>::kRuns; ++run) {
      const uint4 levels = keys.levels[n][run];
      const std::uint32_t words[4] = {levels.x, levels.y, levels.z, levels.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        multiply_accumulate(s[n], q[4 * run + i], pair_of_levels(__byte_perm(words[i], 0, 0x0100)),
                            pair_of_levels(__byte_perm(words[i], 0, 0x0302)));
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) s[n][i] *= keys.scales[n][i % 2];
  }
}

template <int kHeadDim>
__global__ void __launch_bounds__(kDecodeThreads, 3)
    decode_int8_attention(const DecodeInt8Params p) {
  begin_chained();
  extern __shared__ __align__(16) float results[];  // [warps, kHeads, D]
  __shared__ Statistics statistics[DecodeTile::kWarps][kHeads];
  const DecodeTask& task = p.task;
  const DecodeBlock block = DecodeBlock::of<kHeads>(task);
  if (!block.computes()) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int first_row = block.segment.k_begin + block.begin;
  KeyPiece<kHeadDim> key_piece;
  ValuePiece<kHeadDim> value_piece;
  const auto load_keys = [&](int strip) {
    const int first = DecodeBlock::first_key(strip, warp);
    if (strip >= kDecodeStrips || first >= block.keys) return;
    key_piece.load(p.k, block.kv_head, first_row + first, block.keys - first, lane);
  };
  const auto load_values = [&](int strip) {
    const int first = DecodeBlock::first_key(strip, warp);
    if (strip >= kDecodeStrips || first >= block.keys) return;
    value_piece.load(p.v, block.kv_head, first_row + first, block.keys - first, lane);
  };
  load_keys(0);
  load_values(0);
  Bf16Pair q[kHeadDim / 16][4];
  load_queries<kHeadDim>(q, task, block, lane);

  float o[kHeadDim / 8][4] = {};
  Statistics rows[2] = {kNothing, kNothing};
  for (int strip = 0; strip < kDecodeStrips; ++strip) {
    const int left = block.keys - DecodeBlock::first_key(strip, warp);
    if (left <= 0) break;
    float s[1][2][4] = {};
    multiply_keys<kHeadDim>(s[0], q, key_piece);
    load_keys(strip + 1);
    softmax_step<kHeadDim>(s[0], o, rows, left, task.scale_log2, lane);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[0][n][i] *= value_piece.scales[n][i % 2];
    }
    Bf16Pair weights[1][1][4];
    pack_operand<1, 1>(weights, s);
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      multiply_accumulate(o[n], weights[0][0], value_piece.pair(0, n), value_piece.pair(1, n));
    }
    load_values(strip + 1);
  }

  // Column c of product n is element c * D / 8 + n.
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = half * 8 + lane / 4;
    const float sum = row_sum(rows[half].sum);
    if (lane % 4 == 0) statistics[warp][row] = {rows[half].maximum, sum};
    if (row < block.heads) {
      float* const to = results + (warp * kHeads + row) * DecodeTile::result_stride(kHeadDim);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int first = (lane % 4 * 2 + i) * (kHeadDim / 8);
#pragma unroll
        for (int n = 0; n < kHeadDim / 8; n += 4) {
          const int at = 2 * half + i;
          *reinterpret_cast<float4*>(to + DecodeTile::result_at(first + n)) =
              make_float4(o[n][at], o[n + 1][at], o[n + 2][at], o[n + 3][at]);
        }
      }
    }
  }
  __syncthreads();
  join_warps<kHeadDim, kHeads>(task, block, results, statistics);
}

Int8Heads int8_heads(const ConstTensorView& levels, const ConstTensorView& scales) {
  return {head_rows<const std::int8_t>(levels), scales.as<float>(), scales.row_stride};
}

template <int kHeadDim>
void launch_decode_int8(cudaStream_t stream, const AttendInt8Kv& op) {
  const DecodeTask task = decode_task(op, op.segments, op.cache.k.shape[1]);
  const DecodeInt8Params params{.task = task,
                                .k = int8_heads(op.cache.k, op.cache.k_scale),
                                .v = int8_heads(op.cache.v, op.cache.v_scale)};
  launch_decode_parts<kHeadDim, kHeads>(AttendInt8Kv::kName, stream, task,
                                        decode_int8_attention<kHeadDim>, params,
                                        DecodeTile::result_bytes(kHeads, kHeadDim));
}

}  // namespace

void enqueue(const Context& context, const AttendInt8Kv& op) {
  const std::int64_t head_dim = op.q.shape[2];
  const bool tensor_cores = op.q.dtype == DType::kBF16 && (head_dim == 64 || head_dim == 128) &&
                            op.parts && begins_aligned(op.parts) && op.scale > 0 &&
                            rows_aligned({op.q, op.cache.k, op.cache.v, op.o});
  if (!tensor_cores) {
    launch_reference_attend_int8(context.stream, op);
  } else if (head_dim == 64) {
    launch_decode_int8<64>(context.stream, op);
  } else {
    launch_decode_int8<128>(context.stream, op);
  }
}

const void* decode_int8_attention_module() {
  return reinterpret_cast<const void*>(&decode_int8_attention<128>);
}

}  // namespace strata::cuda
