// Inverted dropout whose masks are drawn by counters, so that backward draws the mask of forward
// again and nothing is stored. Adapters run it on what their A reads. Letters of shapes are those
// of strata/ops/embedding.h.
#pragma once

#include <cstdint>

#include "strata/base/tensor.h"
#include "strata/device/trace.h"

namespace strata {

/// Names the masks of the rows of an operator: which draws they take of which stream.
struct DropoutMask {
  double rate = 0;           ///< how much is dropped, from 0 to below 1
  std::uint64_t seed = 0;    ///< a function of the run's seed and the step
  std::uint64_t stream = 0;  ///< of what is dropped
  std::int64_t first = 0;    ///< place of the first row among all that the step has, not negative
};

/// y = fma(x, 1 / (1 - rate), added) where an element is kept, else added, computed in A and
/// rounded once; `added` is 0 where it is absent (Srivastava et al., 2014). The operator is its own
/// backward. Element c of row n is kept if r >= floor(rate * 2^32), with
///   key = random_bits(seed, stream, first + n)
///   r   = mix32(low half of key + c * 0x9e3779b9) ^ high half of key, modulo 2^32
/// and mix32 as AdamW has it. In place (y == x or y == added) is allowed.
struct Dropout {
  static constexpr std::string_view kName = "dropout";
  ConstTensorView x;        ///< [N, C] X; rows may be strided
  ConstTensorView added{};  ///< [N, C] X, or absent; rows may be strided
  TensorView y;             ///< [N, C] X; rows may be strided
  DropoutMask mask{};
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  /// Returns the number that random bits must reach for an element to be kept.
  [[nodiscard]] std::uint32_t threshold() const {
    constexpr double kBits = 4294967296;  // 2^32
    return static_cast<std::uint32_t>(mask.rate * kBits);
  }
};

}  // namespace strata
