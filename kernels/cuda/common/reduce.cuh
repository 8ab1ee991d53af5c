// This file has sums and other reductions over warps and blocks, for the kernels that work row by
// row. The order is fixed: a butterfly in each warp, then one over the warps' results. So the
// result is the same in every thread and in every run.

#pragma once

#include <cuda_runtime.h>

namespace strata::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;
inline constexpr int kMostWarps = 32;

template <class T, class Combine>
__device__ __forceinline__ T warp_reduce(T value, const Combine& combine) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = combine(value, T::shuffle(value, distance));
  }
  return value;
}

/// What the block reductions take: a number that a warp can exchange.
template <class Number>
struct Sum {
  Number value;
  __device__ static Sum shuffle(Sum x, int distance) {
    return {__shfl_xor_sync(kAllLanes, x.value, distance)};
  }
};

/// Reduces over the block and returns the result in all threads, which all take part; the block has
/// whole warps. `identity` changes nothing that it is combined with. `scratch` holds kMostWarps
/// entries and may be used again after the next barrier.
template <class T, class Combine>
__device__ T block_reduce_once(T value, T identity, T* scratch, const Combine& combine) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  value = warp_reduce(value, combine);
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  return warp_reduce(lane < warps ? scratch[lane] : identity, combine);
}

/// Does the same; `scratch` may be used again at once.
template <class T, class Combine>
__device__ T block_reduce(T value, T identity, T* scratch, const Combine& combine) {
  value = block_reduce_once(value, identity, scratch, combine);
  __syncthreads();
  return value;
}

template <class Number>
struct Add {
  __device__ Sum<Number> operator()(Sum<Number> a, Sum<Number> b) const {
    return {a.value + b.value};
  }
};

template <class Number>
__device__ Number block_sum_once(Number value, Sum<Number>* scratch) {
  return block_reduce_once(Sum<Number>{value}, Sum<Number>{Number(0)}, scratch, Add<Number>{})
      .value;
}

template <class Number>
__device__ Number block_sum(Number value, Sum<Number>* scratch) {
  return block_reduce(Sum<Number>{value}, Sum<Number>{Number(0)}, scratch, Add<Number>{}).value;
}

}  // namespace strata::cuda
