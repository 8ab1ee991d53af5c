// This file turns levels of int8 in shared memory into operands of tensor-core products, for
// decode_int8_attention.cu: where a strip's levels lie, dots of keys with queries, and the values
// of a lane.

#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/attention/portable/decode_parts.cuh"
#include "kernels/cuda/attention/portable/flash_tiles.h"
#include "kernels/cuda/common/mma.cuh"

namespace strata::cuda::decode_int8 {

/// Returns (word & mask) | more in one instruction, which the compiler makes two of otherwise.
template <std::uint32_t kMask>
__device__ __forceinline__ std::uint32_t masked_or(std::uint32_t word, std::uint32_t more) {
  std::uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(word), "n"(kMask), "r"(more));
  return result;
}

/// Returns bytes 0 and 2 of a word, which are levels, as a pair of bf16. A bf16 of 128 to 256 has
/// no fraction: the lower 7 bits are added to 128, from which 128 is taken, or 256 if the level is
/// negative.
__device__ __forceinline__ Bf16Pair pair_of_levels(std::uint32_t word) {
  constexpr std::uint32_t k128 = 0x43004300u;
  constexpr std::uint32_t kMinusOne = 0xbf80bf80u;
  const std::uint32_t raised = masked_or<0x007f007fu>(word, k128);
  const std::uint32_t offset = masked_or<0x00800080u>(word, k128);
  Bf16Pair pair;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pair) : "r"(offset), "r"(kMinusOne), "r"(raised));
  return pair;
}

/// A strip of keys or values in shared memory. Chunks of 16 bytes change places so that what lanes
/// read at once, two rows or every other row, is in different banks.
template <int kHeadDim>
struct LevelTile {
  static constexpr int kChunks = kHeadDim / 16;  ///< of a row
  static constexpr int kBytes = DecodeInt8Tile::stage_bytes(kHeadDim);

  __device__ static int offset(int row, int chunk) {
    int moved = row & 6;
    if constexpr (kHeadDim >= 128) moved ^= (row & 1) * 4;
    return ((row * kChunks + chunk) ^ moved) * 16;
  }
  /// Returns what to change of an offset, `rows` rows on, before they are added: of a multiple of
  /// 4, or of 2 from the first two rows on.
  __device__ static constexpr std::uint32_t moved_after(int rows) {
    return static_cast<std::uint32_t>((rows & 6) * 16);
  }
};

/// Loads the lane's part of q, of head lane / 4 of the block: two words for each step of the
/// product, in the order in which pair_of_levels() has keys: of four elements the first and the
/// third, the second and the last. A head that does not exist is zero.
template <int kHeadDim>
__device__ __forceinline__ void load_queries(Bf16Pair (&q)[kHeadDim / 16][2],
                                             const DecodeTask& task, const DecodeBlock& block,
                                             int lane) {
  const bool there = lane / 4 < block.heads;
  const std::uint16_t* const from = task.q.row(block.query, block.head + (there ? lane / 4 : 0));
#pragma unroll
  for (int piece = 0; piece < kHeadDim / 32; ++piece) {  // 8 elements: two steps of the product
    const int at = piece / 2 * 64 + lane % 4 * 16 + piece % 2 * 8;
    const uint4 words = there ? *reinterpret_cast<const uint4*>(from + at) : make_uint4(0, 0, 0, 0);
    q[2 * piece][0] = __byte_perm(words.x, words.y, 0x5410);
    q[2 * piece][1] = __byte_perm(words.x, words.y, 0x7632);
    q[2 * piece + 1][0] = __byte_perm(words.z, words.w, 0x5410);
    q[2 * piece + 1][1] = __byte_perm(words.z, words.w, 0x7632);
  }
}

/// Computes the dots of the strip's keys, lane / 4 and 8 more, with two heads: of the keys the lane
/// has 16 bytes of every 64.
template <int kHeadDim>
__device__ __forceinline__ void multiply_keys(float (&s)[4], const Bf16Pair (&q)[kHeadDim / 16][2],
                                              const unsigned char* stage, const float* scales,
                                              int lane) {
  using Tile = LevelTile<kHeadDim>;
#pragma unroll
  for (int run = 0; run < kHeadDim / 64; ++run) {
    std::uint32_t words[2][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = Tile::offset(half * 8 + lane / 4, 4 * run + lane % 4);
      const uint4 levels = *reinterpret_cast<const uint4*>(stage + at);
      words[half][0] = levels.x;
      words[half][1] = levels.y;
      words[half][2] = levels.z;
      words[half][3] = levels.w;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Bf16Pair a[4] = {pair_of_levels(words[0][i]), pair_of_levels(words[1][i]),
                             pair_of_levels(words[0][i] >> 8), pair_of_levels(words[1][i] >> 8)};
      multiply_accumulate(s, a, q[4 * run + i][0], q[4 * run + i][1]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) s[i] *= scales[i / 2 * 8 + lane / 4];
}

/// What a lane has of a strip's values: of keys 2 (lane % 4) and 1, 8, 9 more, D / 8 elements. They
/// lie in runs of up to 16, one in each eighth of 128 elements.
template <int kHeadDim>
struct ValuePiece {
  static constexpr int kRun = std::min(kHeadDim / 8, 16);
  static constexpr int kRuns = kHeadDim / 8 / kRun;
  static constexpr int kWords = kRun / 4;
  std::uint32_t levels[2][2][kRuns][kWords];

  /// Returns which element of a head the lane's element `at` is.
  __device__ static constexpr int element(int at, int lane) {
    return at / kRun * (8 * kRun) + lane / 4 * kRun + at % kRun;
  }
  __device__ __forceinline__ void load(const unsigned char* stage, int lane) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int run = 0; run < kRuns; ++run) {
          const int row = n * 8 + lane % 4 * 2 + i;
          const int first = element(run * kRun, lane);
          load_run(levels[n][i][run],
                   stage + LevelTile<kHeadDim>::offset(row, first / 16) + first % 16);
        }
      }
    }
  }
  /// Returns the lane's element `at` for two neighbouring keys, as a pair.
  __device__ __forceinline__ Bf16Pair pair(int n, int at) const {
    const unsigned byte = static_cast<unsigned>(at % 4);
    const unsigned selector = byte | (4 + byte) << 8;
    const int word = at % kRun / 4;
    return pair_of_levels(
        __byte_perm(levels[n][0][at / kRun][word], levels[n][1][at / kRun][word], selector));
  }

 private:
  __device__ __forceinline__ static void load_run(std::uint32_t (&to)[kWords],
                                                  const unsigned char* from) {
    if constexpr (kWords == 4) {
      const uint4 words = *reinterpret_cast<const uint4*>(from);
      to[0] = words.x;
      to[1] = words.y;
      to[2] = words.z;
      to[3] = words.w;
    } else {
      const uint2 words = *reinterpret_cast<const uint2*>(from);
      to[0] = words.x;
      to[1] = words.y;
    }
  }
};

}  // namespace strata::cuda::decode_int8
