#pragma once

// Which block of a persistent grid computes which tile: items in the order of WorkOrder, handed out
// in turns to and fro, so that every block gets long and short ones.

#include "kernels/cuda/attention_segments.cuh"
#include "kernels/cuda/attention_tensor_core.cuh"
#include "kernels/cuda/hopper.cuh"

namespace strata::cuda {

/// A run of rows of one segment, for one head.
struct SegmentTile {
  Segment segment;
  int head;
  int begin;  ///< of the segment's rows
  int rows;   ///< 1 .. the tile's size; 0: no more tiles
};

/// Tiles on their way from the warp that finds them to the warps that work on them. In shared
/// memory.
struct TileQueue {
  static constexpr int kStages = 2;
  /// Segments are found in groups of 32.
  static constexpr int kMostGroups = kMostHopperSegments / 32;

  std::uint64_t ready[kStages], free[kStages];
  SegmentTile tiles[kStages];
  int group_begins[kMostGroups];  ///< tiles before each group

  /// By one thread, before fence_barrier_init. `readers` are threads.
  __device__ void init(int readers) {
    for (int i = 0; i < kStages; ++i) {
      barrier(ready[i]).init(1);
      barrier(free[i]).init(readers);
    }
  }
};

/// A thread's way through the queue.
class TileReader {
 public:
  __device__ explicit TileReader(TileQueue& queue) : queue_(queue) {}
  /// Waits for the next tile; one without rows is the end. It stays until done().
  __device__ const SegmentTile& get() const {
    barrier(queue_.ready[at_.stage()]).wait(at_.parity());
    return queue_.tiles[at_.stage()];
  }
  __device__ void done() {
    barrier(queue_.free[at_.stage()]).arrive();
    at_.advance();
  }

 private:
  TileQueue& queue_;
  RingPosition<TileQueue::kStages> at_;
};

/// Finds tiles of kRows of the segments' queries. All its functions are for a whole warp.
template <int kRows>
class TileFinder {
 public:
  /// `group_begins` (shared memory) takes the number of tiles before each group of 32 segments.
  __device__ TileFinder(const Segments& segments, const WorkOrder& order, int heads,
                        bool last_first, int* group_begins)
      : segments_(segments),
        order_(order),
        heads_(heads),
        last_first_(last_first),
        group_begins_(group_begins) {
    if (segments_.uniform_length == 0) count_tiles();
  }

  /// Tile `turn` of this block.
  __device__ SegmentTile at(int turn) const {
    const int blocks = static_cast<int>(gridDim.x);
    const int block = static_cast<int>(blockIdx.x);
    const int i = turn * blocks + (turn & 1 ? blocks - 1 - block : block);
    if (i >= order_.tiles * order_.lanes) return {};
    const WorkOrder::Item item = order_.at(i);
    if (segments_.uniform_length == 0) return in_table(item);
    SegmentTile tile;
    tile.segment = segments_.at(item.lane / heads_);
    tile.head = item.lane % heads_;
    tile.begin = (last_first_ ? order_.tiles - 1 - item.rank : item.rank) * kRows;
    tile.rows = min(kRows, tile.segment.q_length - tile.begin);
    return tile;
  }

 private:
  /// Tiles of segment i; 0 behind the table's end.
  __device__ int tiles_of(int i) const {
    return i < segments_.count ? (segments_.table[5 * i + 2] + kRows - 1) / kRows : 0;
  }
  /// Sum over this lane and those before.
  __device__ static int running_sum(int x) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int before = __shfl_up_sync(~0u, x, step);
      if (lane >= step) x += before;
    }
    return x;
  }

  __device__ void count_tiles() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    order_.tiles = 0;
    groups_ = 0;
#pragma unroll 1  // few registers
    for (int first = 0; first < segments_.count; first += 32) {
      const int tiles = __shfl_sync(~0u, running_sum(tiles_of(first + lane)), 31);
      if (tiles == 0) break;  // the rest of the table is unused
      if (lane == 0) group_begins_[groups_] = order_.tiles;
      ++groups_;
      order_.tiles += tiles;
    }
    __syncwarp();
  }

  __device__ SegmentTile in_table(const WorkOrder::Item& item) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int group = -1;  // the last one that begins at or before the rank
#pragma unroll 1
    for (int first = 0; first < groups_; first += 32) {
      const bool before = first + lane < groups_ && group_begins_[first + lane] <= item.rank;
      group += __popc(__ballot_sync(~0u, before));
    }
    const int tiles_end = group_begins_[group] + running_sum(tiles_of(32 * group + lane));
    const int within = __popc(__ballot_sync(~0u, tiles_end <= item.rank));
    const int end = __shfl_sync(~0u, tiles_end, within);
    SegmentTile tile;
    tile.segment = segments_.at(32 * group + within);
    tile.head = item.lane;
    // Tiles of a segment come from its end: those are long.
    const int from_end = item.rank - (end - (tile.segment.q_length + kRows - 1) / kRows);
    const int tiles = (tile.segment.q_length + kRows - 1) / kRows;
    tile.begin = (last_first_ ? tiles - 1 - from_end : from_end) * kRows;
    tile.rows = min(kRows, tile.segment.q_length - tile.begin);
    return tile;
  }

  Segments segments_;
  WorkOrder order_;
  int heads_;
  bool last_first_;
  int* group_begins_;
  int groups_ = 0;
};

/// The finding warp's work: puts all tiles of this block into the queue. `last_first`: a segment's
/// last rows make its longest tile.
template <int kRows>
__device__ void find_tiles(const Segments& segments, const WorkOrder& order, int heads,
                           bool last_first, TileQueue& queue) {
  const TileFinder<kRows> finder(segments, order, heads, last_first, queue.group_begins);
  RingPosition<TileQueue::kStages> at;
  for (int turn = 0;; ++turn) {
    const SegmentTile tile = finder.at(turn);
    barrier(queue.free[at.stage()]).wait(at.parity() ^ 1);
    if (threadIdx.x % 32 == 0) {
      queue.tiles[at.stage()] = tile;
      barrier(queue.ready[at.stage()]).arrive();
    }
    if (tile.rows == 0) return;
    at.advance();
  }
}

}  // namespace strata::cuda
