// This file has the warpgroup products (wgmma) of the sm_90a kernels, and the tiles and registers
// that they take. Terms and rules: PTX ISA 9.0, "Asynchronous warpgroup level matrix instructions".
//
// Shared tiles hold `rows` rows of a head as panels of 64 columns: [panels][rows][64] bf16, rows of
// 128 bytes in the 128-byte swizzle, panels at multiples of 1024 bytes. That is how TMA writes them
// and how wgmma reads them, row by row (K-major) or column by column (MN-major).

#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/common/mma.cuh"

namespace strata::cuda {

inline constexpr int kPanelColumns = 64;
inline constexpr int kPanelRowBytes = 128;

/// Describes a tile to wgmma: the address, the distance of panels (used if columns of the product
/// run along the rows of the tile) and the 1024 bytes of eight rows.
__device__ __forceinline__ std::uint64_t tile_descriptor(std::uint32_t address,
                                                         std::uint32_t panel_bytes) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
  constexpr std::uint64_t kEightRows = std::uint64_t{1024 >> 4} << 32;
  return kSwizzle128 | kEightRows | (std::uint64_t{panel_bytes >> 4} << 16) |
         ((address & 0x3ffff) >> 4);
}

/// Needed before the first product after registers of accumulators or operands were written.
__device__ __forceinline__ void fence_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Closes a group of products.
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most kPending of the youngest groups are unfinished.
template <int kPending>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// Keeps the compiler from moving uses of registers over a fence or a wait.
template <int kCount>
__device__ __forceinline__ void pin_registers(float (&r)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(r[i])::"memory");
}

/// Writes four 8x8 matrices held as operand a of a product (see scores()); lanes 8i .. 8i + 7 give
/// the row addresses of matrix i.
__device__ __forceinline__ void store_matrices(std::uint32_t address, const Bf16Pair (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}
/// Lets products read what this thread wrote to shared memory; a barrier must follow.
__device__ __forceinline__ void fence_writes_before_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#define STRATA_F8(d, i)                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define STRATA_F32(d, i) \
  STRATA_F8(d, i), STRATA_F8(d, i + 8), STRATA_F8(d, i + 16), STRATA_F8(d, i + 24)
#define STRATA_F64(d, i) STRATA_F32(d, i), STRATA_F32(d, i + 32)
#define STRATA_NAMES_24                                                                   \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
  "%19, %20, %21, %22, %23"
#define STRATA_NAMES_32                                                                   \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
  "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define STRATA_NAMES_64                                                                     \
  STRATA_NAMES_32                                                                           \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, " \
  "%49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define STRATA_NAMES_40 STRATA_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define STRATA_NAMES_128                                                                       \
  STRATA_NAMES_64                                                                              \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, "    \
  "%81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, " \
  "%99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, "  \
  "%114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

/// Starts d (+)= a b^T for 64 rows of a, as many rows of b as d has columns, and 16 columns of
/// both. Lane 4g + t of warp w of the warpgroup holds of d: row 16w + g in elements 4j and 4j + 1,
/// row 16w + g + 8 in 4j + 2 and 4j + 3, both of columns 8j + 2t and 8j + 2t + 1.
__device__ __forceinline__ void multiply_tiles(float (&d)[24], std::uint64_t a, std::uint64_t b,
                                               bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %26, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {" STRATA_NAMES_24
      "}, %24, %25, p, 1, 1, 0, 0;\n}\n"
      : STRATA_F8(d, 0), STRATA_F8(d, 8), STRATA_F8(d, 16)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
__device__ __forceinline__ void multiply_tiles(float (&d)[32], std::uint64_t a, std::uint64_t b,
                                               bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" STRATA_NAMES_32
      "}, %32, %33, p, 1, 1, 0, 0;\n}\n"
      : STRATA_F32(d, 0)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
__device__ __forceinline__ void multiply_tiles(float (&d)[40], std::uint64_t a, std::uint64_t b,
                                               bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %42, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {" STRATA_NAMES_40
      "}, %40, %41, p, 1, 1, 0, 0;\n}\n"
      : STRATA_F32(d, 0), STRATA_F8(d, 32)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
__device__ __forceinline__ void multiply_tiles(float (&d)[64], std::uint64_t a, std::uint64_t b,
                                               bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" STRATA_NAMES_64
      "}, %64, %65, p, 1, 1, 0, 0;\n}\n"
      : STRATA_F32(d, 0), STRATA_F32(d, 32)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

/// Starts d[64, n] += a b for a [64, 16] in registers and 16 rows of b, a tile of n columns.
__device__ __forceinline__ void multiply_registers(float (&d)[32], const Bf16Pair (&a)[4],
                                                   std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" STRATA_NAMES_32
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}\n"
      : STRATA_F32(d, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
}
__device__ __forceinline__ void multiply_registers(float (&d)[64], const Bf16Pair (&a)[4],
                                                   std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" STRATA_NAMES_64
      "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}\n"
      : STRATA_F32(d, 0), STRATA_F32(d, 32)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
}
__device__ __forceinline__ void multiply_registers(float (&d)[128], const Bf16Pair (&a)[4],
                                                   std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %133, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" STRATA_NAMES_128
      "}, {%128, %129, %130, %131}, %132, p, 1, 1, 1;\n}\n"
      : STRATA_F64(d, 0), STRATA_F64(d, 64)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
}

/// Starts d[64, n] (+)= a^T b for 16 rows of both tiles, a of 64 columns.
__device__ __forceinline__ void multiply_transposed(float (&d)[16], std::uint64_t a,
                                                    std::uint64_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}"
      ", %16, %17, p, 1, 1, 1, 1;\n}\n"
      : STRATA_F8(d, 0), STRATA_F8(d, 8)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
__device__ __forceinline__ void multiply_transposed(float (&d)[32], std::uint64_t a,
                                                    std::uint64_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" STRATA_NAMES_32
      "}, %32, %33, p, 1, 1, 1, 1;\n}\n"
      : STRATA_F32(d, 0)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

#undef STRATA_F8
#undef STRATA_F32
#undef STRATA_F64
#undef STRATA_NAMES_24
#undef STRATA_NAMES_32
#undef STRATA_NAMES_40
#undef STRATA_NAMES_64
#undef STRATA_NAMES_128

/// A tile of kRows rows of a head in shared memory.
template <int kHeadDim, int kRows>
struct PanelTile {
  static constexpr int kTileRows = kRows;
  static constexpr int kPanels = kHeadDim / kPanelColumns;
  static constexpr std::uint32_t kPanelBytes = kRows * kPanelRowBytes;
  static constexpr std::uint32_t kBytes = kPanels * kPanelBytes;

  /// Returns the offset of 16 columns of the rows from the tile's own descriptor.
  __device__ static constexpr std::uint64_t column_step(int k) {
    return (k / 4 * kPanelBytes + k % 4 * 32) >> 4;
  }
  /// Returns the offset of 16 rows.
  __device__ static constexpr std::uint64_t row_step(int k) {
    return (k * 16 * kPanelRowBytes) >> 4;
  }
  __device__ static std::uint64_t descriptor(std::uint32_t address) {
    return tile_descriptor(address, kPanelBytes);
  }
};

/// Starts d = a b^T over all of the head dim: a's 64 rows begin at `a`, b's rows at `b` (both are
/// descriptors).
template <class TileA, class TileB, int kHeadDim, int kCount>
__device__ __forceinline__ void scores(float (&d)[kCount], std::uint64_t a, std::uint64_t b) {
#pragma unroll
  for (int k = 0; k < kHeadDim / 16; ++k) {
    multiply_tiles(d, a + TileA::column_step(k), b + TileB::column_step(k), k != 0);
  }
}

/// Starts d += p b for p [64, 16 * kSteps] packed in registers and the tile b of 16 * kSteps rows.
template <class TileB, int kSteps, int kCount>
__device__ __forceinline__ void weighted_sum(float (&d)[kCount], const Bf16Pair (&p)[kSteps][4],
                                             std::uint64_t b) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) multiply_registers(d, p[k], b + TileB::row_step(k));
}

/// Starts d = a^T b over all rows of both tiles.
template <class TileA, class TileB, int kCount>
__device__ __forceinline__ void transposed_sum(float (&d)[kCount], std::uint64_t a,
                                               std::uint64_t b) {
  static_assert(TileA::kTileRows == TileB::kTileRows);
#pragma unroll
  for (int k = 0; k < TileA::kTileRows / 16; ++k) {
    multiply_transposed(d, a + TileA::row_step(k), b + TileB::row_step(k), k != 0);
  }
}

/// Rounds an accumulator to bf16 as operand a of the next product: the layout of 16 of its columns
/// is the layout of a.
template <int kSteps>
__device__ __forceinline__ void pack_scores(Bf16Pair (&to)[kSteps][4],
                                            const float (&from)[8 * kSteps]) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[k][i] = pack_bf16(from[8 * k + 2 * i], from[8 * k + 2 * i + 1]);
    }
  }
}

/// Writes rows g and g + 8 (lane 4g + t) of this warp's 16 rows of an accumulator as bf16; `row` is
/// where row 0 goes. Lanes of a quad exchange words so that each writes 16 bytes.
template <int kCount>
__device__ __forceinline__ void store_rows(const float (&d)[kCount], std::uint16_t* row,
                                           std::int64_t stride, int valid_rows) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int t = lane % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = lane / 4 + 8 * half;
#pragma unroll
    for (int j = 0; j < kCount / 4; j += 4) {
      Bf16Pair word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        word[i] = pack_bf16(d[4 * (j + i) + 2 * half], d[4 * (j + i) + 2 * half + 1]);
      }
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const Bf16Pair got = __shfl_xor_sync(~0u, t & 1 ? word[i] : word[i + 1], 1);
        (t & 1 ? word[i] : word[i + 1]) = got;
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Bf16Pair got = __shfl_xor_sync(~0u, t & 2 ? word[i] : word[i + 2], 2);
        (t & 2 ? word[i] : word[i + 2]) = got;
      }
      if (r < valid_rows) {
        *reinterpret_cast<uint4*>(row + r * stride + (j + t) * 8) =
            make_uint4(word[0], word[1], word[2], word[3]);
      }
    }
  }
}

}  // namespace strata::cuda