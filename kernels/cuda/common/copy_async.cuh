// This file has asynchronous copies from global into shared memory (sm_80 and later), for the
// kernels that keep what comes next there. They take no registers while they are under way, so a
// block can ask for far more than its threads could hold. What a thread copied itself it may read
// once the copy's group has arrived; what others copied needs a barrier after that.

#pragma once

#include <cstdint>

#include "kernels/cuda/common/vector.cuh"

namespace strata::cuda {

/// Starts to copy 16 bytes to an address in shared memory.
__device__ __forceinline__ void start_copy(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/// Starts to copy W elements, or copies them at once if they are fewer than 16 bytes.
template <class T, int W>
__device__ __forceinline__ void copy_async(T* shared, const T* from) {
  if constexpr (sizeof(T) * W == 16) {
    start_copy(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)), from);
  } else {
    store_raw(shared, load_raw<T, W>(from));
  }
}

/// Ends a group: the copies that this thread started since the group before.
__device__ __forceinline__ void end_copy_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most kPending groups of this thread are under way, the newest ones.
template <int kPending>
__device__ __forceinline__ void wait_for_copy_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace strata::cuda
