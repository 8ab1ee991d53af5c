// Every thread has all its loads under way at once, and nothing is written, which the compiler
// cannot know.

#include "bench/plain_read.h"

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace strata::bench {
namespace {

constexpr int kThreads = 256;

template <int kLoads>
__global__ void __launch_bounds__(kThreads) read_plainly(const uint4* memory, unsigned* never) {
  const uint4* from = memory + static_cast<std::size_t>(blockIdx.x) * kThreads * kLoads;
  uint4 loaded[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) loaded[i] = __ldcs(from + i * kThreads + threadIdx.x);
  unsigned all = 0;
#pragma unroll
  for (const uint4& x : loaded) all |= x.x & x.y & x.z & x.w;
  // Random numbers have some bit that is 0 in each group of four.
  if (all == ~0U && never != nullptr) *never = all;
}

template <int kLoads>
void launch(cudaStream_t stream, const TensorView& memory) {
  const auto blocks =
      static_cast<unsigned>(memory.bytes().bytes / (kThreads * kLoads * sizeof(uint4)));
  read_plainly<kLoads><<<blocks, kThreads, 0, stream>>>(reinterpret_cast<const uint4*>(memory.data),
                                                        static_cast<unsigned*>(nullptr));
}

}  // namespace

void submit_read(Stream& compute, const TensorView& memory, int block_bytes) {
  auto* stream = static_cast<cudaStream_t>(compute.native());
  switch (block_bytes / (kThreads * static_cast<int>(sizeof(uint4)))) {
    case 2: launch<2>(stream, memory); break;
    case 4: launch<4>(stream, memory); break;
    case 8: launch<8>(stream, memory); break;
    case 16: launch<16>(stream, memory); break;
    default: throw std::runtime_error("no plain read has such blocks");
  }
  if (const cudaError_t code = cudaGetLastError(); code != cudaSuccess) {
    throw std::runtime_error(std::string("a plain read: ") + cudaGetErrorString(code));
  }
}

}  // namespace strata::bench
