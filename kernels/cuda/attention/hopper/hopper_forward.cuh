// This file has what producers and consumers of hopper_forward.cu share: arguments, the shapes of
// tiles, shared memory, and the walk over blocks of keys.

#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention/hopper/hopper_tiles.cuh"
#include "kernels/cuda/common/hopper_barriers.cuh"
#include "kernels/cuda/common/hopper_products.cuh"

namespace strata::cuda::hopper_forward {

inline constexpr int kStages = 2;  ///< stages of keys and of values

struct ForwardParams {
  CUtensorMap q, k, v;
  Segments segments;
  WorkOrder order;
  TileCounter* counter;
  int heads;
  int group;  ///< query heads of a kv head
  std::int64_t query_rows;
  HeadRows<std::uint16_t> o;
  float* lse;
  float scale;
  float scale_log2;  ///< scale * log2(e)
  int window;        ///< see ScoreShape
};

template <int kHeadDim>
struct Shape {
  static constexpr int kConsumers = kHeadDim == 64 ? 3 : 2;  ///< warpgroups
  static constexpr int kQueries = 64 * kConsumers;
  static constexpr int kKeys = kHeadDim == 256 ? 80 : 128;      ///< keys of a block
  static constexpr int kQueryStages = kHeadDim == 256 ? 1 : 2;  ///< stages of tiles of queries
  static constexpr int kThreads = kWarpgroup * (kConsumers + 1);
  // Together the warps take no more registers than the block has at its launch: 168 (128) a thread.
  static constexpr int kProducerRegisters = kHeadDim == 64 ? 32 : 40;
  static constexpr int kConsumerRegisters = kHeadDim == 64 ? 160 : 232;
  using Queries = PanelTile<kHeadDim, kQueries>;
  using Keys = PanelTile<kHeadDim, kKeys>;
};

template <int kHeadDim>
struct Shared {
  static constexpr int kQueryStages = Shape<kHeadDim>::kQueryStages;

  unsigned char q[kQueryStages][Shape<kHeadDim>::Queries::kBytes];
  unsigned char k[kStages][Shape<kHeadDim>::Keys::kBytes];
  unsigned char v[kStages][Shape<kHeadDim>::Keys::kBytes];
  std::uint64_t q_full[kQueryStages], q_empty[kQueryStages];
  std::uint64_t k_full[kStages], k_empty[kStages];
  std::uint64_t v_full[kStages], v_empty[kStages];
  TileQueue tiles;
};

/// The blocks of kKeys keys that a tile of queries walks over: [first, blocks), from the last one
/// on.
template <int kKeys, bool kWindowed>
struct KeyWalk {
  int last_key;  ///< the tile's first query sees up to it; row i sees i more, up to the segment's
                 ///< end
  int first = 0;
  int blocks;
  int unmasked;   ///< blocks from this one on have keys that are after some row
  int clear = 0;  ///< blocks before this one have keys that the window hides from some row

  __device__ KeyWalk(const SegmentTile& tile, int window)
      : last_key(tile.begin + tile.segment.q_offset) {
    const int visible = max(0, min(tile.segment.k_length, last_key + tile.rows));
    blocks = (visible + kKeys - 1) / kKeys;
    unmasked = max(0, min(tile.segment.k_length, last_key + 1)) / kKeys;
    if constexpr (kWindowed) {
      first = min(visible, max(0, last_key + 1 - window)) / kKeys;
      clear = (max(0, last_key + tile.rows - window) + kKeys - 1) / kKeys;
    }
  }
};

}  // namespace strata::cuda::hopper_forward
