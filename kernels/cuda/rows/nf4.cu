// This file decodes weights of 4 bits on CUDA; CudaKernels launches it through operators.h. It
// takes any number of blocks of 64, in bf16 or f32, and gives the bits that strata/ops/nf4.h
// defines.
//
// y[i] = level[code] * (scale_value[scale] * group + offset)
//
// Shapes: codes [n / 2] u8, scales [n / 64] u8, groups [ceil(n / 16384)] f32, tables [273] f32,
// y [n].
// Tile: a thread decodes 8 elements: 4 bytes of codes become 16 bytes of bf16, so a warp writes 512
// bytes in a row and reads 128. The 16 levels are in shared memory, each in a bank of its own.
// Numerics: f32, each operation rounded, none fused; bitwise equal to the CPU.
// Naive version: kernels/cpu/nf4.cpp.

#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/grid.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {
namespace {

constexpr int kElements = 8;  ///< that a thread decodes, of one block

/// What an element's scale is made of.
struct Scales {
  const std::uint8_t* codes;
  const float* groups;
  const float* tables;

  __device__ __forceinline__ float of(std::int64_t i) const {
    const std::int64_t block = i / kNf4Block;
    const float value = tables[1 + kNf4Levels + codes[block]];
    return __fadd_rn(__fmul_rn(value, groups[block / kNf4Group]), tables[0]);
  }
};

template <class T>
__global__ void dequantize_nf4(const std::uint32_t* codes, Scales scales, T* y, Extent extent) {
  __shared__ float levels[kNf4Levels];
  if (threadIdx.x < kNf4Levels) levels[threadIdx.x] = scales.tables[1 + threadIdx.x];
  __syncthreads();
  for_each_piece<kElements>(extent, [&](std::int64_t, std::int64_t i) {
    const float scale = scales.of(i);
    const std::uint32_t word = codes[i / kElements];
    float values[kElements];
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
      // The first element is in the upper half of the lowest byte.
      const int shift = j % 2 == 0 ? 4 * j + 4 : 4 * j - 4;
      values[j] = __fmul_rn(levels[word >> shift & 15], scale);
    }
    store(y + i, values);
  });
}

}  // namespace

void enqueue(const Context& context, const DequantizeNf4& op) {
  const Extent extent{1, op.y.elements()};
  with_dtype(op.kName, op.y.dtype, [&]<class T>() {
    launch(over(op.kName, context.stream, extent, kElements), dequantize_nf4<T>,
           data<std::uint32_t>(op.codes),
           Scales{data<std::uint8_t>(op.scales), data<float>(op.groups), data<float>(op.tables)},
           data<T>(op.y), extent);
  });
}

const void* nf4_module() { return reinterpret_cast<const void*>(&dequantize_nf4<float>); }

}  // namespace strata::cuda
