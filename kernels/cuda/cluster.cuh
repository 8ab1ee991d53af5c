#pragma once

// Clusters of blocks (sm_90 and later): blocks that run at the same time on neighbouring
// multiprocessors and may write each other's shared memory. Before sm_90 every block is alone.

#include <cstdint>

namespace strata::cuda {

#if __CUDA_ARCH__ >= 900

__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// Blocks of the cluster; 1 for a launch without clusters.
__device__ __forceinline__ unsigned cluster_blocks() {
  unsigned blocks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return blocks;
}

/// Barriers of all threads of the cluster: arrive, then wait. Shared memory of other blocks may be
/// touched between a first barrier (they have started) and a last one (they have not ended).
__device__ __forceinline__ void cluster_arrive_started() {  // orders no memory
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
/// What was written before is seen behind the wait.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Where another block of the cluster has the variable that this block has at `shared`.
template <class T>
__device__ __forceinline__ T* in_block(T* shared, unsigned rank) {
  std::uint64_t address;
  asm("mapa.u64 %0, %1, %2;"
      : "=l"(address)
      : "l"(reinterpret_cast<std::uint64_t>(shared)), "r"(rank));
  return reinterpret_cast<T*>(address);
}

#else

__device__ __forceinline__ unsigned cluster_rank() { return 0; }
__device__ __forceinline__ unsigned cluster_blocks() { return 1; }
__device__ __forceinline__ void cluster_arrive_started() {}
__device__ __forceinline__ void cluster_arrive() {}
__device__ __forceinline__ void cluster_wait() {}
template <class T>
__device__ __forceinline__ T* in_block(T* shared, unsigned) {
  return shared;
}

#endif

}  // namespace strata::cuda
