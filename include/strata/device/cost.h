#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace strata {

/// What the time of a submission goes to.
enum class CostKind : std::uint8_t {
  kMemory,   ///< moves bytes of one memory: the host's on the host lane, else the device's
  kPooled,   ///< likewise, a host task that has all threads work for it
  kRare,     ///< moves nothing but in rare steps, which are not counted
  kLinkIn,   ///< copies from the host to the device
  kLinkOut,  ///< copies from the device to the host
  kProduct,  ///< multiplies matrices
  kAttentionForward,
  kAttentionBackward,
};

/// What a submission costs, as far as its arguments tell: the same on every backend.
struct Cost {
  CostKind kind = CostKind::kMemory;
  double flops = 0;       ///< of products and attention, causal attention counted once
  std::size_t bytes = 0;  ///< that it moves; 0: all that it says it reads and writes
  /// kProduct: m, n, k. Attention: tokens, tokens of a row, head dim. Else none.
  std::array<std::int64_t, 3> extents{};
};

}  // namespace strata
