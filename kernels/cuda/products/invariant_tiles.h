// The tiles of invariant_matmul.cu and the shared memory that they take. It is plain C++, so that a
// test compares it with what every architecture has without a GPU.

#pragma once

#include <cstddef>

namespace strata::cuda {

/// A block's rows of b and of a, and the ring of stages in which both arrive.
struct InvariantTile {
  static constexpr int kWarps = 2;
  static constexpr int kRowsOfB = 16 * kWarps;
  static constexpr int kDepth = 128;  ///< of k in a stage
  static constexpr int kRowBytes = 2 * kDepth;
  /// The most rows of a that a block takes.
  static constexpr int kMostRows = 64;

  static constexpr int stage_bytes(int rows) { return (kRowsOfB + rows) * kRowBytes; }
  /// As many as keep a multiprocessor's memory busy, and let two blocks live on it.
  static constexpr int stages(int rows) { return rows <= 16 ? 8 : rows <= 32 ? 6 : 4; }
  static constexpr std::size_t shared_bytes(int rows) {
    return static_cast<std::size_t>(stages(rows) * stage_bytes(rows));
  }
};

}  // namespace strata::cuda
