// This file has the warp-level building blocks of the portable tensor-core path (sm_80 and later):
// asynchronous copies into shared memory, matrix loads from it, and the bf16 m16n8k16 product with
// f32 accumulation. The portable attention kernels are made of them, and the sm_90a kernels use
// the smallest ones (hopper_products.cuh).
//
// Shared tiles hold rows of `kHeadDim` bf16. The 16-byte chunk c of row r lies at chunk c ^ (r %
// 8), so eight rows read at one column touch all banks once. Tiles start at multiples of 512 bytes:
// then going 16 columns on is an exclusive or of the address, and going 8 rows on an addition.

#pragma once

#include <cstdint>

namespace strata::cuda {

using Bf16Pair = std::uint32_t;  ///< two bf16, the lower column in the low half

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Starts to copy 16 bytes; without `valid` it writes zeros and reads nothing.
__device__ __forceinline__ void copy_async_16(std::uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 16 : 0));
}

/// Does the same with what is not read again soon: it is the first to leave the L2 cache, where
/// what kernels leave for each other stays.
__device__ __forceinline__ void copy_async_16_once(std::uint32_t to, const void* from, bool valid) {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(to),
               "l"(from), "r"(valid ? 16 : 0), "l"(policy));
}

/// Starts to copy 4 bytes; without `valid` it writes zeros and reads nothing.
__device__ __forceinline__ void copy_async_4(std::uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 4 : 0));
}

/// Waits for all asynchronous copies of this thread; what others copied needs a barrier after it.
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

/// Loads four 8x8 matrices; lanes 8i .. 8i + 7 give the row addresses of matrix i.
__device__ __forceinline__ void load_matrices(Bf16Pair (&to)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

__device__ __forceinline__ void load_matrices_transposed(Bf16Pair (&to)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

/// Adds a[16, 16] b[16, 8] to c[16, 8]. Lane 4g + t holds of c: rows g and g + 8, columns 2t and 2t
/// + 1.
__device__ __forceinline__ void multiply_accumulate(float (&c)[4], const Bf16Pair (&a)[4],
                                                    Bf16Pair b0, Bf16Pair b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Transposes an 8x8 matrix of which lane 4 g + t has row g, columns 2 t and 2 t + 1.
__device__ __forceinline__ Bf16Pair transposed(Bf16Pair from) {
  Bf16Pair to;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(to) : "r"(from));
  return to;
}

__device__ __forceinline__ Bf16Pair pack_bf16(float low, float high) {
  Bf16Pair pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// Returns 2^x with a relative error of about 2^-22, and 0 for -infinity.
__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Return the largest of the four lanes that share a row of an accumulator, or their sum.
__device__ __forceinline__ float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

template <int kHeadDim>
struct SharedTile {
  static constexpr int kRowBytes = kHeadDim * 2;
  static constexpr int kChunks = kHeadDim / 8;  ///< chunks of 16 bytes in a row

  __device__ static constexpr std::uint32_t offset(int row, int chunk) {
    return static_cast<std::uint32_t>(row * kRowBytes + ((chunk ^ (row & 7)) << 4));
  }
  /// Returns this lane's row address for load_matrices of a 16x16 block, quadrants in the order of
  /// operand a: (rows 0-7, columns 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15). Transposed, the
  /// same order gives operand b of two neighbouring column blocks.
  __device__ static std::uint32_t lane_offset_a(int lane) { return offset(lane & 15, lane >> 4); }
  /// Returns the same for operand b of two neighbouring row blocks: (0-7, 0-7), (0-7, 8-15), (8-15,
  /// 0-7), (8-15, 8-15).
  __device__ static std::uint32_t lane_offset_b(int lane) {
    return offset((lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1);
  }

  /// Starts to copy rows [0, valid_rows) of `from`, and zeros after them, into the tile of kRows
  /// rows.
  template <int kRows, int kThreads>
  __device__ static void load(std::uint32_t tile, const std::uint16_t* from,
                              std::int64_t row_stride, int valid_rows) {
    constexpr int kRowsAtOnce = kThreads / kChunks;
    static_assert(kRowsAtOnce % 4 == 0 && kRows % kRowsAtOnce == 0);
    const int first_row = static_cast<int>(threadIdx.x) / kChunks;
    const int chunk = static_cast<int>(threadIdx.x) % kChunks;
    const std::uint32_t to = tile + offset(first_row, chunk);
    const std::uint16_t* source = from + first_row * row_stride + chunk * 8;
#pragma unroll
    for (int row = 0; row < kRows; row += kRowsAtOnce) {
      // Four rows on, chunks are four places away.
      copy_async_16((to ^ ((row & 4) << 4)) + row * kRowBytes, source,
                    first_row + row < valid_rows);
      source += kRowsAtOnce * row_stride;
    }
  }

  /// Adds a b^T to c, both tiles row-major in shared memory, summed over kHeadDim. `a` and `b` are
  /// lane addresses (lane_offset_a, lane_offset_b) of the first of 16 * kRowBlocks and 8 *
  /// kColumnBlocks rows.
  template <int kRowBlocks, int kColumnBlocks>
  __device__ __forceinline__ static void multiply_transposed(
      float (&c)[kRowBlocks][kColumnBlocks][4], std::uint32_t a, std::uint32_t b) {
#pragma unroll
    for (int k = 0; k < kHeadDim / 16; ++k) {
      const std::uint32_t columns = static_cast<std::uint32_t>(k) << 5;
      Bf16Pair a_block[kRowBlocks][4];
#pragma unroll
      for (int m = 0; m < kRowBlocks; ++m) {
        load_matrices(a_block[m], (a ^ columns) + m * 16 * kRowBytes);
      }
#pragma unroll
      for (int n = 0; n < kColumnBlocks; n += 2) {
        Bf16Pair b_blocks[4];
        load_matrices(b_blocks, (b ^ columns) + n * 8 * kRowBytes);
#pragma unroll
        for (int m = 0; m < kRowBlocks; ++m) {
          multiply_accumulate(c[m][n], a_block[m], b_blocks[0], b_blocks[1]);
          multiply_accumulate(c[m][n + 1], a_block[m], b_blocks[2], b_blocks[3]);
        }
      }
    }
  }

  /// Loads rows of operand a, all of kHeadDim, into registers; `a` is their lane address
  /// (lane_offset_a).
  __device__ __forceinline__ static void load_operand(Bf16Pair (&to)[kHeadDim / 16][4],
                                                      std::uint32_t a) {
#pragma unroll
    for (int k = 0; k < kHeadDim / 16; ++k) load_matrices(to[k], a ^ (k << 5));
  }

  /// Does the same with 16 rows of a in registers.
  template <int kColumnBlocks>
  __device__ __forceinline__ static void multiply_transposed(float (&c)[kColumnBlocks][4],
                                                             const Bf16Pair (&a)[kHeadDim / 16][4],
                                                             std::uint32_t b) {
#pragma unroll
    for (int k = 0; k < kHeadDim / 16; ++k) {
#pragma unroll
      for (int n = 0; n < kColumnBlocks; n += 2) {
        Bf16Pair b_blocks[4];
        load_matrices(b_blocks, (b ^ (k << 5)) + n * 8 * kRowBytes);
        multiply_accumulate(c[n], a[k], b_blocks[0], b_blocks[1]);
        multiply_accumulate(c[n + 1], a[k], b_blocks[2], b_blocks[3]);
      }
    }
  }

  /// Adds p b to c with p in registers as operand a and b a row-major tile of 16 * kSteps rows; `b`
  /// is the lane address (lane_offset_a) of its first row.
  template <int kRowBlocks, int kSteps>
  __device__ __forceinline__ static void multiply(float (&c)[kRowBlocks][kHeadDim / 8][4],
                                                  const Bf16Pair (&p)[kRowBlocks][kSteps][4],
                                                  std::uint32_t b) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; n += 2) {
        Bf16Pair b_blocks[4];
        load_matrices_transposed(b_blocks, (b ^ (n << 4)) + k * 16 * kRowBytes);
#pragma unroll
        for (int m = 0; m < kRowBlocks; ++m) {
          multiply_accumulate(c[m][n], p[m][k], b_blocks[0], b_blocks[1]);
          multiply_accumulate(c[m][n + 1], p[m][k], b_blocks[2], b_blocks[3]);
        }
      }
    }
  }

  /// Rounds c to bf16 and writes its first `valid_rows` rows to `to`, by way of the warp's own
  /// 16 * kRowBlocks rows of shared memory at `tile`, so that whole rows reach global memory.
  template <int kRowBlocks>
  __device__ static void store(const float (&c)[kRowBlocks][kHeadDim / 8][4], unsigned char* tile,
                               std::uint16_t* to, std::int64_t row_stride, int valid_rows) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    __syncwarp();
#pragma unroll
    for (int m = 0; m < kRowBlocks; ++m) {
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; ++n) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = m * 16 + half * 8 + lane / 4;
          *reinterpret_cast<Bf16Pair*>(tile + offset(row, n) + lane % 4 * 4) =
              pack_bf16(c[m][n][2 * half], c[m][n][2 * half + 1]);
        }
      }
    }
    __syncwarp();
    constexpr int kRowsAtOnce = 32 / kChunks;
    const int chunk = lane % kChunks;
#pragma unroll
    for (int first = 0; first < kRowBlocks * 16; first += kRowsAtOnce) {
      const int row = first + lane / kChunks;
      if (row < valid_rows) {
        *reinterpret_cast<uint4*>(to + row * row_stride + chunk * 8) =
            *reinterpret_cast<const uint4*>(tile + offset(row, chunk));
      }
    }
  }
};

/// Packs an accumulator [16 * kRowBlocks, 16 * kSteps] as operand a of the next product: the layout
/// of two neighbouring column blocks of c is the layout of one block of a.
template <int kRowBlocks, int kSteps>
__device__ __forceinline__ void pack_operand(Bf16Pair (&to)[kRowBlocks][kSteps][4],
                                             const float (&from)[kRowBlocks][2 * kSteps][4]) {
#pragma unroll
  for (int m = 0; m < kRowBlocks; ++m) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      to[m][k][0] = pack_bf16(from[m][2 * k][0], from[m][2 * k][1]);
      to[m][k][1] = pack_bf16(from[m][2 * k][2], from[m][2 * k][3]);
      to[m][k][2] = pack_bf16(from[m][2 * k + 1][0], from[m][2 * k + 1][1]);
      to[m][k][3] = pack_bf16(from[m][2 * k + 1][2], from[m][2 * k + 1][3]);
    }
  }
}

}  // namespace strata::cuda
