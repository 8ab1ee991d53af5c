// This file lets kernels of one stream overlap: a kernel that is launched as `chained` (launch.cuh)
// starts while the one before it still runs (programmatic dependent launch, compute capability
// 9.0). It calls wait_for_previous() in every thread before it reads or writes what another kernel
// writes or reads. The one before has then ended, and all before that one, since each of them
// waited likewise. Before that it may read what was there before the chain began: weights.
//
// On older GPUs kernels follow each other as ever, and both functions do nothing.

#pragma once

namespace strata::cuda {

/// Says that the next kernel may start as soon as all blocks of this one have started. It finds
/// room where these leave some.
__device__ __forceinline__ void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Waits until the kernel before this one has ended and its writes are seen.
__device__ __forceinline__ void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Begins a kernel that reads nothing ahead.
__device__ __forceinline__ void begin_chained() {
  let_next_start();
  wait_for_previous();
}

}  // namespace strata::cuda
