// This file has clusters of blocks (sm_90 and later): blocks that run at the same time on
// neighbouring multiprocessors and may read and write each other's shared memory. cross_entropy.cu
// and sampling.cu share rows out over them, fp8_columns_kept.cu columns, decode attention joins
// parts of keys. Before sm_90 every block is alone, and the same calls do nothing.

#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace strata::cuda {

/// The largest cluster that every device with clusters has.
inline constexpr int kMostClusterBlocks = 8;

#if __CUDA_ARCH__ >= 900

__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// Returns the number of blocks of the cluster; 1 for a launch without clusters.
__device__ __forceinline__ unsigned cluster_blocks() {
  unsigned blocks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return blocks;
}

/// A barrier of all threads of the cluster; what was written before it is seen after it.
__device__ __forceinline__ void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;\n" ::
          : "memory");
}

/// Returns the address at which block `rank` of the cluster has what this block has at `shared`.
__device__ __forceinline__ std::uint32_t in_block(std::uint32_t shared, unsigned rank) {
  std::uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(rank));
  return address;
}

/// Reads 8 bytes of another block's shared memory, see in_block().
__device__ __forceinline__ unsigned long long load_from_block(std::uint32_t address) {
  unsigned long long word;
  asm volatile("ld.shared::cluster.u64 %0, [%1];" : "=l"(word) : "r"(address));
  return word;
}

/// Writes 4 bytes to another block's shared memory, see in_block().
__device__ __forceinline__ void store_in_block(std::uint32_t address, unsigned word) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

/// Reads 16 bytes of another block's shared memory.
__device__ __forceinline__ void load_floats_from_block(std::uint32_t address, float (&to)[4]) {
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "r"(address));
}

/// Exchanges two numbers of every block of a cluster, again and again. Blocks write to each other
/// and count the bytes, without a fence: a cluster barrier would wait until everything that its
/// threads have written to global memory is there.
class ClusterExchange {
 public:
  /// Called by all threads, together, before any other function.
  __device__ void init() {
    if (threadIdx.x == 0) {
      for (const std::uint64_t& barrier : barriers_) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&barrier)) : "memory");
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    cluster_sync();
  }
  /// Gives all blocks this block's pair and returns, in lane i, that of block i; lanes without a
  /// block get `other`. `call` counts the calls from 0; all threads of the block call it, after a
  /// barrier of the block that comes after the call before.
  __device__ float2 exchange(float2 own, float2 other, unsigned call) {
    const unsigned turn = call % 2;  // another block may be one call ahead, not two
    const unsigned blocks = cluster_blocks();
    const std::uint32_t barrier = address(&barriers_[turn]);
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                   "r"(blocks * static_cast<unsigned>(sizeof own))
                   : "memory");
    }
    if (threadIdx.x < blocks) {
      asm volatile(
          "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, "
          "[%3];" ::"r"(in_block(address(&pairs_[turn][cluster_rank()]), threadIdx.x)),
          "f"(own.x), "f"(own.y), "r"(in_block(barrier, threadIdx.x))
          : "memory");
    }
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@done bra finished;\n"
        "bra again;\n"
        "finished:\n"
        "}\n" ::"r"(barrier),
        "r"(call / 2 % 2)
        : "memory");
    const unsigned lane = threadIdx.x % 32;
    return lane < blocks ? pairs_[turn][lane] : other;
  }

 private:
  static __device__ std::uint32_t address(const void* shared) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  }
  std::uint64_t barriers_[2];
  float2 pairs_[2][kMostClusterBlocks];
};

#else

__device__ __forceinline__ unsigned cluster_rank() { return 0; }
__device__ __forceinline__ unsigned cluster_blocks() { return 1; }
__device__ __forceinline__ void cluster_sync() {}
__device__ __forceinline__ std::uint32_t in_block(std::uint32_t shared, unsigned) { return shared; }
__device__ __forceinline__ unsigned long long load_from_block(std::uint32_t) { return 0; }
__device__ __forceinline__ void store_in_block(std::uint32_t, unsigned) {}
__device__ __forceinline__ void load_floats_from_block(std::uint32_t, float (&)[4]) {}
class ClusterExchange {
 public:
  __device__ void init() {}
  __device__ float2 exchange(float2 own, float2, unsigned) { return own; }
};

#endif

}  // namespace strata::cuda
