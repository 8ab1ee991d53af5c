// This file has the team of blocks that draws the token of a row, for sampling.cu: the shared
// memory of a block, and what blocks tell each other. They may form a cluster.

#pragma once

#include <cstdint>

#include "kernels/cuda/common/cluster.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/rows/sampling_limits.h"

namespace strata::cuda::sampling {

using Mass = unsigned long long;
using Key = unsigned long long;

inline constexpr int kDigitBits = 8;
inline constexpr int kDigits = 1 << kDigitBits;

/// The largest number so far, of equals the first; what is no number wins for good.
struct Largest {
  double value;
  int id;
  int nan;  ///< not 0: there was one
  __device__ static Largest shuffle(Largest x, int distance) {
    return {__shfl_xor_sync(kAllLanes, x.value, distance),
            __shfl_xor_sync(kAllLanes, x.id, distance),
            __shfl_xor_sync(kAllLanes, x.nan, distance)};
  }
};

struct LargerOf {
  __device__ Largest operator()(Largest a, Largest b) const {
    const bool second = b.value > a.value || (b.value == a.value && b.id < a.id);
    Largest result = second ? b : a;
    result.nan = a.nan | b.nan;
    return result;
  }
};

/// Shared memory beside the bits of seen tokens.
struct Scratch {
  Largest largest[kMostWarps];
  Sum<double> sums[kMostWarps];
  Sum<Mass> masses[kMostWarps];
  Mass digits[2][kDigits];  ///< of this block, in turns: others of the cluster read the last ones
  Mass all_digits[kDigits];
  Mass told[2][2];  ///< to the other blocks, in turns likewise
  Mass above;       ///< what is gathered of larger keys
  Key key;
  int token;
};
static_assert(sizeof(Scratch) <= kStaticBytes);

/// The blocks that share a row, which all call its functions together, in all threads.
class Team {
 public:
  __device__ explicit Team(Scratch& scratch) : scratch_(scratch) {}

  /// Returns, in lane i, what block i gives; lanes without a block get `identity`.
  template <class T>
  __device__ T exchange(const T& own, const T& identity) {
    static_assert(sizeof(T) % sizeof(Mass) == 0 && sizeof(T) <= sizeof(scratch_.told[0]));
    const unsigned lane = threadIdx.x % kWarp;
    if (cluster_blocks() == 1) return lane == 0 ? own : identity;
    Mass* const told = scratch_.told[turn_];
    turn_ ^= 1;
    if (threadIdx.x == 0) *reinterpret_cast<T*>(told) = own;
    __syncwarp();
    cluster_sync();
    if (lane >= cluster_blocks()) return identity;
    struct Words {
      Mass of[sizeof(T) / sizeof(Mass)];
    } words;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T) / sizeof(Mass)); ++i) {
      words.of[i] = load_from_block(in_block(address(told + i), lane));
    }
    return __builtin_bit_cast(T, words);
  }
  /// Returns what `combine` makes of all blocks' results.
  template <class T, class Combine>
  __device__ T reduce(const T& own, const T& identity, const Combine& combine) {
    return warp_reduce(exchange(own, identity), combine);
  }
  /// Returns the sums of all blocks' digits, when all have counted theirs in `digits`.
  __device__ const Mass* sum_digits(const Mass* digits) {
    const unsigned blocks = cluster_blocks();
    if (blocks == 1) {
      __syncthreads();
      return digits;
    }
    cluster_sync();
    for (int i = static_cast<int>(threadIdx.x); i < kDigits; i += kThreads) {
      Mass sum = 0;
      for (unsigned b = 0; b < blocks; ++b) {
        sum += load_from_block(in_block(address(digits + i), b));
      }
      scratch_.all_digits[i] = sum;
    }
    __syncthreads();
    return scratch_.all_digits;
  }
  /// Called last: no block ends while others read what it told.
  __device__ void end() const {
    if (cluster_blocks() > 1) cluster_sync();
  }

 private:
  __device__ static std::uint32_t address(const void* shared) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  }
  Scratch& scratch_;
  unsigned turn_ = 0;
};

}  // namespace strata::cuda::sampling
