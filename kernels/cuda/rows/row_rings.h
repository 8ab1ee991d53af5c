// How the kernels of cross_entropy.cu and norm_backward.cu divide shared memory, and which of them
// a device can run. It is plain C++, so that a test asks it for every architecture without a GPU.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace strata::cuda {

/// What choosing needs to know of a device.
struct RingDevice {
  std::size_t shared_bytes = 0;  ///< of a block, at most
  bool clusters = false;         ///< blocks may form clusters
};

namespace cross_entropy {

/// How many vectors of 16 bytes make a piece, a block's threads apart.
inline constexpr int kVectors = 2;
/// How many pieces of one row a thread keeps, at most.
inline constexpr int kKeptPieces = 4;
/// The largest cluster that every device with clusters has.
inline constexpr unsigned kMostBlocksPerRow = 8;
/// Shared memory beside the ring: what the runtime and a reduction take.
inline constexpr std::size_t kOtherBytes = 2048;

/// What a multiprocessor holds: kBlocks blocks, whose threads have kSlots pieces each in shared
/// memory, of the row at work and of the next ones.
template <int kThreadsOf, int kSlotsOf, int kBlocksOf>
struct Residents {
  static constexpr int kThreads = kThreadsOf;
  static constexpr int kSlots = kSlotsOf;
  static constexpr int kBlocks = kBlocksOf;
  static constexpr int kPieceBytes = kVectors * kThreads * 16;
  static constexpr int kRingBytes = kSlots * kPieceBytes;
};
using OneBlock = Residents<1024, 7, 1>;
using TwoBlocks = Residents<512, 7, 2>;

template <class R>
constexpr bool has_ring(const RingDevice& device) {
  return device.shared_bytes >= R::kRingBytes + kOtherBytes;
}

/// Returns how many blocks keep a row of `bytes`: 0 if it cannot be kept on this device.
template <class R>
constexpr unsigned blocks_to_keep(std::int64_t bytes, const RingDevice& device) {
  if (!has_ring<R>(device)) return 0;
  constexpr std::int64_t kKeptBytes = kKeptPieces * R::kPieceBytes;
  unsigned blocks = 1;
  while (blocks * kKeptBytes < bytes) blocks *= 2;
  if (blocks == 1) return 1;
  return device.clusters && blocks <= kMostBlocksPerRow ? blocks : 0;
}

}  // namespace cross_entropy

namespace norm_backward {

inline constexpr int kThreads = 512;
/// How many pieces of 16 bytes a thread owns of a row with the ring, at most: enough for C = 16384
/// in bf16.
inline constexpr int kMostPieces = 4;
/// Bytes of shared memory beside the ring, at most.
inline constexpr std::size_t kStaticBytes = 1024;

/// Returns how many rows the ring has: as many as shared memory holds of the widest.
constexpr int stages_with(int pieces) { return pieces <= 2 ? 4 : 6 - pieces; }

/// Returns the bytes of the ring for rows of `row_bytes`, all their tensors together, of which a
/// thread owns `pieces` pieces; nothing if this device has too little shared memory.
constexpr std::optional<std::size_t> ring_bytes(int pieces, std::size_t row_bytes,
                                                const RingDevice& device) {
  const std::size_t bytes = static_cast<std::size_t>(stages_with(pieces)) * row_bytes;
  if (bytes + kStaticBytes > device.shared_bytes) return std::nullopt;
  return bytes;
}

}  // namespace norm_backward

}  // namespace strata::cuda
