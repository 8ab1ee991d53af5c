// The tiles of fused_linear.cu and the shared memory that they take. It is plain C++, so that a
// test compares it with what every architecture has without a GPU.

#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::cuda {

/// What a device has, as far as tiles depend on it.
struct FusedDevice {
  std::size_t block_bytes = 0;  ///< shared memory that a block may have
  int multiprocessors = 0;
};

/// A block's rows of b, which come through a ring of stages for each warp, and f(x), which lies
/// beside them: rows of whole stages, each 16 bytes further than its end so that rows begin in
/// different banks, and 16 bytes of zeros.
struct FusedTile {
  static constexpr int kWarps = 4;
  static constexpr int kRowsOfWarp = 8;  ///< of b
  static constexpr int kRowsOfB = kWarps * kRowsOfWarp;
  static constexpr int kDepth = 256;  ///< of k in a stage
  static constexpr int kElementBytes = 2;
  static constexpr int kStageBytes = kRowsOfWarp * kDepth * kElementBytes;
  static constexpr int kMostStages = 6;   ///< of the ring
  static constexpr int kLeastStages = 4;  ///< likewise
  /// The sums of squares of each row's warps and a half of what SwiGLU reads of two tiles, in
  /// static memory.
  static constexpr std::size_t kStaticBytes = 1024;

  static constexpr std::int64_t padded(std::int64_t k) {
    return (k + kDepth - 1) / kDepth * kDepth;
  }
  static constexpr std::int64_t input_row_bytes(std::int64_t k) {
    return padded(k) * kElementBytes + 16;
  }
  static constexpr int ring_bytes(int stages) { return stages * kStageBytes; }  ///< of a warp
  static constexpr std::size_t shared_bytes(int stages, std::int64_t rows, std::int64_t k) {
    return static_cast<std::size_t>(kWarps * ring_bytes(stages) + rows * input_row_bytes(k) + 16);
  }
  /// Returns whether two blocks live on a multiprocessor at a time.
  static constexpr bool two_fit(int stages, std::int64_t rows, std::int64_t k,
                                const FusedDevice& device) {
    constexpr std::size_t kReserved = 1024;  // of a multiprocessor, for each block
    const std::size_t block = shared_bytes(stages, rows, k) + kStaticBytes + kReserved;
    return 2 * block <= device.block_bytes + kReserved;
  }
  /// Returns how many blocks live on the device at a time.
  static constexpr int places(int stages, std::int64_t rows, std::int64_t k,
                              const FusedDevice& device) {
    return device.multiprocessors * (two_fit(stages, rows, k, device) ? 2 : 1);
  }
  /// Returns the stages for a layer of so many blocks, or 0 if a block of this device cannot take
  /// it: the most with which all blocks, or two, live on a multiprocessor at a time. Of large
  /// inputs each block would have too much to make for itself.
  static constexpr int stages(std::int64_t rows, std::int64_t k, std::int64_t blocks,
                              const FusedDevice& device) {
    constexpr std::int64_t kMostInputBytes = 64 << 10;
    if (rows * input_row_bytes(k) > kMostInputBytes) return 0;
    const bool alone = blocks <= device.multiprocessors;
    const auto bytes = [&](int stages) { return shared_bytes(stages, rows, k) + kStaticBytes; };
    for (int stages = kMostStages; stages >= kLeastStages; --stages) {
      if (alone ? bytes(stages) <= device.block_bytes : two_fit(stages, rows, k, device)) {
        return stages;
      }
    }
    for (int stages = kMostStages; stages >= kLeastStages; --stages) {
      if (bytes(stages) <= device.block_bytes) return stages;
    }
    return 0;
  }
};

}  // namespace strata::cuda
