// This file has how the warps of a sm_90a kernel share work: mbarriers, rings of stages, named
// barriers, and registers that warpgroups give each other. Terms and rules: PTX ISA 9.0, "Parallel
// Synchronization and Communication Instructions".

#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/common/mma.cuh"

namespace strata::cuda {

inline constexpr int kWarpgroup = 128;  ///< threads

/// This thread's place among the consumers, which are all threads but the first warpgroup, worked
/// out anew where it is used: registers are scarce.
struct Place {
  [[nodiscard]] __device__ static int thread() {
    int index;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
    return index - kWarpgroup;
  }
  [[nodiscard]] __device__ static int warpgroup() { return thread() / kWarpgroup; }
  [[nodiscard]] __device__ static int row() { return thread() / 32 * 16; }  ///< the warp's first
  [[nodiscard]] __device__ static int
  lane_row() {  ///< the first of its two rows, of the warp's 16; the other is 8 more
    return thread() % 32 / 4;
  }
  [[nodiscard]] __device__ static int column() {  ///< the first of its two columns, of every eight
    return thread() % 4 * 2;
  }
};

/// An mbarrier in shared memory, by its address. Phases are counted by the caller: wait(n & 1)
/// returns once phase n is complete.
struct Barrier {
  std::uint32_t address;

  __device__ void init(int arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(arrivals));
  }
  __device__ void arrive() const {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
  }
  /// One lane arrives for its warp if `now` holds, which must be the same in all lanes. There is no
  /// branch, so that products may be in flight.
  __device__ void arrive_for_warp(bool now = true) const {
    asm volatile(
        "{\n"
        ".reg .pred first;\n"
        "setp.ne.u32 first, %1, 0;\n"
        "@first mbarrier.arrive.shared::cta.b64 _, [%0];\n"
        "}\n" ::"r"(address),
        "r"(static_cast<int>(now && threadIdx.x % 32 == 0))
        : "memory");
  }
  /// Arrives, and lets the phase wait for `bytes` of copies too.
  __device__ void arrive_and_expect(std::uint32_t bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes)
                 : "memory");
  }
  __device__ void wait(std::uint32_t parity) const {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra finished;\n"
        "bra again;\n"
        "finished:\n"
        "}\n" ::"r"(address),
        "r"(parity)
        : "memory");
  }
};

__device__ __forceinline__ Barrier barrier(const std::uint64_t& at) {
  return {shared_address(&at)};
}

/// Makes initialised barriers visible to the copy engine; a block barrier must follow.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// The place of use number `count` in a ring of kStages stages, a power of two.
template <int kStages>
struct RingPosition {
  static_assert((kStages & (kStages - 1)) == 0);
  unsigned count = 0;
  __device__ int stage() const { return static_cast<int>(count % kStages); }
  __device__ std::uint32_t parity() const { return count / kStages & 1; }
  __device__ void advance() { ++count; }
  __device__ RingPosition before(unsigned uses) const { return {count - uses}; }
};

/// Waits at a named barrier of the block until `threads` threads have come, those that wait and
/// those that only arrive. The kernel's own enum names the barrier.
template <class Name>
  requires std::is_enum_v<Name>
__device__ __forceinline__ void named_barrier_wait(Name name, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(static_cast<int>(name)), "r"(threads) : "memory");
}
/// Arrives at a named barrier and goes on.
template <class Name>
  requires std::is_enum_v<Name>
__device__ __forceinline__ void named_barrier_arrive(Name name, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(static_cast<int>(name)), "r"(threads) : "memory");
}

/// Gives registers back, or takes them, until every thread of the warpgroup has kRegisters.
template <int kRegisters>
__device__ __forceinline__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace strata::cuda
