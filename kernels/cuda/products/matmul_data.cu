// This file makes operands for timing matrix products, and a hash to tell whether results repeat,
// both for MatmulTimer; matmul_data.h is the contract. What a GPU draws, and with it its clock,
// depends on the numbers that it multiplies: zeros would be measured too fast.
//
// random: element i = Box-Muller of the two halves of a 64-bit hash of i; 8 elements a thread.
// hash: sum over 16-byte pieces of a mix of index and content, modulo 2^64. Integer sums do not
// depend on the order, so blocks add theirs with an atomic.

#include <cuda_fp8.h>

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/products/matmul_data.h"
#include "strata/base/random.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerMultiprocessor = 8;

__device__ float normal(std::uint64_t index) {
  const std::uint64_t bits = mix64(index);
  constexpr float kStep = 1.0f / (1 << 24);
  const float u = (static_cast<float>(bits >> 40) + 0.5f) * kStep;
  const float v = static_cast<float>(static_cast<std::uint32_t>(bits) >> 8) * kStep;
  return sqrtf(-2.0f * logf(u)) * cospif(2.0f * v);
}

__global__ void random_bf16(Vector<__nv_bfloat16, 8>* to, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; i < count; i += step) {
    float values[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) values[j] = normal(static_cast<std::uint64_t>(8 * i + j));
    to[i] = pack<__nv_bfloat16, 8>(values);
  }
}

__global__ void random_e4m3(Vector<std::uint8_t, 16>* to, std::int64_t count) {
  constexpr float kSize = 100.0f;  // the largest of some thousand numbers is then near 448
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; i < count; i += step) {
    Vector<std::uint8_t, 16> codes;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      codes.values[j] = __nv_cvt_float_to_fp8(
          kSize * normal(static_cast<std::uint64_t>(16 * i + j)), __NV_SATFINITE, __NV_E4M3);
    }
    to[i] = codes;
  }
}

__global__ void hash_pieces(const ulonglong2* from, std::int64_t count, unsigned long long* hash) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  unsigned long long sum = 0;
  for (; i < count; i += step) {
    const ulonglong2 piece = from[i];
    sum += mix64(mix64(mix64(static_cast<std::uint64_t>(i)) ^ piece.x) ^ piece.y);
  }
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(~0u, sum, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(hash, sum);
}

Launch whole_device(cudaStream_t stream, std::string_view name) {
  return {.name = name,
          .stream = stream,
          .grid = static_cast<unsigned>(kBlocksPerMultiprocessor * multiprocessors()),
          .block = kThreads};
}

}  // namespace

void launch_random_bf16(cudaStream_t stream, std::span<std::byte> memory) {
  launch(whole_device(stream, "random operands"), random_bf16,
         reinterpret_cast<Vector<__nv_bfloat16, 8>*>(memory.data()),
         static_cast<std::int64_t>(memory.size() / sizeof(Vector<__nv_bfloat16, 8>)));
}

void launch_random_e4m3(cudaStream_t stream, std::span<std::byte> memory) {
  launch(whole_device(stream, "random operands"), random_e4m3,
         reinterpret_cast<Vector<std::uint8_t, 16>*>(memory.data()),
         static_cast<std::int64_t>(memory.size() / sizeof(Vector<std::uint8_t, 16>)));
}

void launch_hash(cudaStream_t stream, std::span<const std::byte> memory, std::uint64_t* hash) {
  STRATA_CUDA_CHECK(cudaMemsetAsync(hash, 0, sizeof *hash, stream));
  launch(whole_device(stream, "hash"), hash_pieces,
         reinterpret_cast<const ulonglong2*>(memory.data()),
         static_cast<std::int64_t>(memory.size() / sizeof(ulonglong2)),
         reinterpret_cast<unsigned long long*>(hash));
}

}  // namespace strata::cuda
