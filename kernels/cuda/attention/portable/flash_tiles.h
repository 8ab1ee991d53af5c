// The tiles of the portable attention kernels and the shared memory that they take. It is plain
// C++, so that a test compares it with what every architecture has without a GPU.

#pragma once

#include <cstddef>

namespace strata::cuda {

/// Bytes of a row of keys, values, queries or gradients in shared memory: bf16.
constexpr int flash_row_bytes(int head_dim) { return 2 * head_dim; }

/// Warps of a block with a tile of queries, and blocks of 16 queries that each of them has: two
/// where sums of so many columns fit the registers.
inline constexpr int kFlashWarps = 4;
constexpr int flash_row_blocks(int head_dim) { return head_dim == 256 ? 1 : 2; }
constexpr int flash_queries(int head_dim) { return kFlashWarps * 16 * flash_row_blocks(head_dim); }

/// flash_forward.cu: a block's queries, and two stages of keys and values; as many keys as leave
/// scores and o in registers.
struct FlashForwardTile {
  static constexpr int keys_per_stage(int head_dim) {
    return head_dim == 64 ? 96 : head_dim == 128 ? 48 : 32;
  }
  static constexpr std::size_t shared_bytes(int head_dim) {
    return static_cast<std::size_t>((flash_queries(head_dim) + 4 * keys_per_stage(head_dim)) *
                                    flash_row_bytes(head_dim));
  }
};

/// What both kernels of single queries over a cache have alike.
struct DecodeTile {
  static constexpr int kWarps = 4;
  static constexpr int kHeads = 8;  ///< query heads of a block, those that do not exist included
  static constexpr int kStripKeys = 16;  ///< that a warp takes at once
  static constexpr int kPartStrips = 4;  ///< of a warp, in a part of keys
  /// Where element d of a head is in what warps summed, and elements from one head to the next: so
  /// that no lanes of a warp write to one bank of shared memory at once, in either kernel.
  static constexpr int result_at(int d) { return d + d / 32 * 8; }
  static constexpr int result_stride(int head_dim) {
    return (result_at(head_dim - 1) / 32 + 1) * 32 + 4;
  }
  /// What warps summed: f32, for each head.
  static constexpr std::size_t result_bytes(int head_dim) {
    return sizeof(float) * static_cast<std::size_t>(kWarps * kHeads * result_stride(head_dim));
  }
};

/// decode_attention.cu: each warp of a block has a ring whose stages are the keys of a strip, its
/// values, the keys of the next one, and so on. Rings hold three stages, so that four blocks live
/// on a multiprocessor, or all of a part where there are few blocks. With head dim 256 a stage is
/// twice as large: rings hold two or six.
struct DecodeBf16Tile {
  static constexpr int few_stages(int head_dim) { return head_dim == 256 ? 2 : 3; }
  static constexpr int many_stages(int head_dim) {
    return head_dim == 256 ? 6 : 2 * DecodeTile::kPartStrips;
  }
  /// Blocks with few stages that live on a multiprocessor.
  static constexpr int blocks(int head_dim) { return head_dim == 256 ? 2 : 4; }
  static constexpr int stage_bytes(int head_dim) {
    return DecodeTile::kStripKeys * flash_row_bytes(head_dim);
  }
  static constexpr std::size_t shared_bytes(int head_dim, int stages) {
    return static_cast<std::size_t>(DecodeTile::kHeads * flash_row_bytes(head_dim) +
                                    DecodeTile::kWarps * stages * stage_bytes(head_dim));
  }
};

/// decode_int8_attention.cu: the same with stages of half the size, four of them or all of a part,
/// and their scales behind all rings.
struct DecodeInt8Tile {
  static constexpr int few_stages(int) { return 4; }
  static constexpr int many_stages(int) { return 2 * DecodeTile::kPartStrips; }
  static constexpr int blocks(int head_dim) { return head_dim == 256 ? 3 : 4; }
  static constexpr int stage_bytes(int head_dim) { return DecodeTile::kStripKeys * head_dim; }
  static constexpr int rings_bytes(int head_dim, int stages) {
    return DecodeTile::kWarps * stages * stage_bytes(head_dim);
  }
  static constexpr std::size_t shared_bytes(int head_dim, int stages) {
    constexpr int kScales = DecodeTile::kStripKeys * static_cast<int>(sizeof(float));
    return static_cast<std::size_t>(rings_bytes(head_dim, stages) +
                                    DecodeTile::kWarps * stages * kScales);
  }
};

/// flash_key_gradients.cu, for head dims 64 and 128: two stages of queries and d_o, with lse and
/// delta.
struct FlashKeyGradientTile {
  static constexpr int kQueriesPerStage = 64;
  static constexpr int stage_bytes(int head_dim) {
    constexpr int kStatistics = 2 * static_cast<int>(sizeof(float));
    return kQueriesPerStage * (2 * flash_row_bytes(head_dim) + kStatistics);
  }
  static constexpr std::size_t shared_bytes(int head_dim) {
    return static_cast<std::size_t>(2 * stage_bytes(head_dim));
  }
};

/// flash_wide_key_gradients.cu, for head dim 256: two stages of queries and d_o, lse and delta of
/// both, and P of two steps.
struct FlashWideKeyGradientTile {
  static constexpr int kHeadDim = 256;
  static constexpr int kKeys = 64;
  static constexpr int kQueriesPerStage = 32;
  static constexpr int kQueriesPerStep = 16;
  static constexpr int kTileBytes = kQueriesPerStage * flash_row_bytes(kHeadDim);
  static constexpr int kStageBytes = 2 * kTileBytes;
  static constexpr int kStatisticsBytes = 2 * kQueriesPerStage * static_cast<int>(sizeof(float));
  static constexpr int kStepBytes = kKeys * kQueriesPerStep * static_cast<int>(sizeof(float));
  static constexpr std::size_t kSharedBytes = 2 * (kStageBytes + kStatisticsBytes + kStepBytes);
};

/// The kernel of dq in flash_backward.cu: a block's queries and d_o, and two stages of keys and
/// values.
struct FlashQueryGradientTile {
  static constexpr int keys_per_stage(int head_dim) {
    return head_dim == 64 ? 48 : head_dim == 128 ? 32 : 16;
  }
  static constexpr std::size_t shared_bytes(int head_dim) {
    return static_cast<std::size_t>((2 * flash_queries(head_dim) + 4 * keys_per_stage(head_dim)) *
                                    flash_row_bytes(head_dim));
  }
};

}  // namespace strata::cuda
