// What a submission costs: the FLOPs of products and attention, the direction of a copy, the bytes
// moved, the parameters coded. Operators and lanes state it when they submit, the trace keeps it,
// and predictions and reports read it. It follows from arguments alone, so it is the same on every
// backend.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace strata {

/// What the time of a submission goes to.
enum class CostKind : std::uint8_t {
  kMemory,        ///< moves bytes of one memory: the host's on the host lane, the disk's on the
                  ///< save lane, else the device's
  kPooled,        ///< moves bytes by a host task that has all threads work for it
  kRare,          ///< moves bytes in rare steps only, which are not counted
  kLinkIn,        ///< copies from the host to the device
  kLinkOut,       ///< copies from the device to the host
  kProduct,       ///< multiplies matrices
  kCodesProduct,  ///< multiplies matrices of codes in e4m3
  kAttentionForward,
  kAttentionBackward,
};

/// What a submission costs, as far as its arguments tell: the same on every backend.
struct Cost {
  CostKind kind = CostKind::kMemory;
  double flops = 0;       ///< of products and attention, causal attention counted once
  std::size_t bytes = 0;  ///< bytes moved; 0: all that it says it reads and writes
  /// m, n, k for products; tokens, tokens of a row, head dim for attention; zeros for the rest.
  std::array<std::int64_t, 3> extents{};
  std::int64_t coded = 0;  ///< parameters whose moments become codes of 8 bits
};

}  // namespace strata
