// This file has what the norms of heads share, forward (head_norm.cu) and backward
// (head_norm_backward.cu): where heads lie, and how the lanes of a warp share them.
//
// A head of at most 32 pieces of 16 bytes is held in registers: a group of 8, 16 or 32 lanes takes
// it, a piece each, so that a warp has up to four heads at a time. A wider head, or one that is not
// aligned, is read by a whole warp, a second time from the caches once its sum is known.

#pragma once

#include <cstdint>

#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/reduce.cuh"
#include "strata/base/narrow.h"
#include "strata/base/tensor.h"

namespace strata::cuda {

/// The heads that a launch covers, numbered token by token.
struct Heads {
  std::int64_t count;  ///< of all tokens
  int of_token;
  int size;  ///< D
};

[[nodiscard]] inline Heads heads_of(const ConstTensorView& x) {
  const int tokens = narrow<int>(x.shape[0]);
  const int of_token = narrow<int>(x.shape[1]);
  return {.count = std::int64_t{tokens} * of_token,
          .of_token = of_token,
          .size = narrow<int>(x.shape[2])};
}

/// Where a head is: its token, and its number among the heads of the token.
struct HeadPlace {
  int token;
  int head;

  __device__ __forceinline__ HeadPlace(const Heads& heads, std::int64_t index)

      : token(static_cast<int>(index / heads.of_token)),
        head(static_cast<int>(index % heads.of_token)) {}
  /// Returns where the head begins in a tensor.
  template <class T>
  [[nodiscard]] __device__ __forceinline__ T* in(const Rows<T>& rows, const Heads& heads) const {
    return rows.row(token) + head * heads.size;
  }
};

/// The way from a head to the one that is so many heads further on, without a division.
struct HeadStep {
  int tokens;
  int heads;

  HeadStep(const Heads& of, int count) : tokens(count / of.of_token), heads(count % of.of_token) {}
  __device__ __forceinline__ void advance(HeadPlace& place, const Heads& of) const {
    place.token += tokens;
    place.head += heads;
    if (place.head < of.of_token) return;
    place.head -= of.of_token;
    ++place.token;
  }
  __device__ __forceinline__ void retreat(HeadPlace& place, const Heads& of) const {
    place.token -= tokens;
    place.head -= heads;
    if (place.head >= 0) return;
    place.head += of.of_token;
    --place.token;
  }
};

/// Returns the sum over a group of kLanes neighbouring lanes, in all of them. All lanes of the warp
/// take part. Lanes that hold 0 change no bit, so the sum does not depend on kLanes.
template <int kLanes>
__device__ __forceinline__ float group_sum(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

/// Calls `body.operator()<kLanes>()` with the lanes that hold a head of so many pieces. Returns
/// false if a warp cannot hold it.
template <class Body>
bool with_lanes(int pieces, const Body& body) {
  if (pieces > kWarp) return false;
  if (pieces <= 8) {
    body.template operator()<8>();
  } else if (pieces <= 16) {
    body.template operator()<16>();
  } else {
    body.template operator()<32>();
  }
  return true;
}

}  // namespace strata::cuda
