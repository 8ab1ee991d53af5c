// This file names the named barriers that the sm_90a attention kernels use, after
// FlashAttention-3's named_barrier.hpp. A block has sixteen of them, and a kernel numbers its own;
// number 0 is the one of __syncthreads(), so names begin at 1. named_barrier_wait and
// named_barrier_arrive of common/hopper_barriers.cuh take these enums and no bare numbers.

#pragma once

namespace strata::cuda {

/// The forward has one barrier for each of its two or three warpgroups of consumers.
enum class ForwardBarrier : int {
  kFirstTurn = 1,  ///< it is the first warpgroup's turn to issue products
  kSecondTurn,     ///< the second one's
  kThirdTurn,      ///< the third one's, if there is a third
};

/// The barrier at which consumer `warpgroup` (from 0) waits for its turn.
[[nodiscard]] __device__ constexpr ForwardBarrier turn_of(int warpgroup) {
  return static_cast<ForwardBarrier>(static_cast<int>(ForwardBarrier::kFirstTurn) + warpgroup);
}

/// The kernel of dk and dv of head dim 256 hands P from one warpgroup to the other.
enum class WideBackwardBarrier : int {
  kProbabilitiesWritten = 1,  ///< the warpgroup of dv has written P to shared memory
  kProbabilitiesRead,         ///< the warpgroup of dk has read it
};

/// The kernel of dk and dv has these if it adds its share of dq, too.
enum class BackwardBarrier : int {
  kScoresWritten = 1,   ///< both warpgroups have written dS to shared memory
  kFirstBoxesWritten,   ///< the first warpgroup has written its half of dq to shared memory
  kSecondBoxesWritten,  ///< the second one has
};

/// The barrier at which consumer `warpgroup` (from 0) knows that its half of dq is written.
[[nodiscard]] __device__ constexpr BackwardBarrier boxes_written_by(int warpgroup) {
  return static_cast<BackwardBarrier>(static_cast<int>(BackwardBarrier::kFirstBoxesWritten) +
                                      warpgroup);
}

}  // namespace strata::cuda
