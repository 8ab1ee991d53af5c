// This file decides which block of a persistent grid computes which tile, for hopper_forward.cu and
// hopper_backward.cu. Items in the order of WorkOrder go to the blocks as these become free. Handed
// out beforehand, to and fro, the longest sum of a block is 7 % above the mean for rows of 2048 and
// 4096 tokens, and 10 to 50 % with documents of many lengths. A tile's result does not depend on
// who computes it.

#pragma once

#include "kernels/cuda/attention/attention_segments.cuh"
#include "kernels/cuda/attention/attention_tensor_core.cuh"
#include "kernels/cuda/common/hopper_barriers.cuh"

namespace strata::cuda {

/// The most shared memory that a block has on compute capability 9.0.
inline constexpr std::size_t kMostHopperSharedBytes = 227 * 1024;

/// A run of rows of one segment, for one head.
struct SegmentTile {
  Segment segment;
  int head;
  int begin;  ///< the first row, counted from the segment's rows
  int rows;   ///< 1 .. the tile's size, or 0 if there are no more tiles
};

/// What is known of a table of segments, and where a walk over its tiles is. It lies in shared
/// memory, since the finding warp has few registers.
struct TableWalk {
  /// Segments are looked at in groups of 32.
  static constexpr int kMostGroups = kMostHopperSegments / 32;

  int groups;
  int most;  ///< tiles of the longest segment
  /// Tiles of the longest segment of each group; kMostHopperTableRows keeps them in 16 bits.
  std::uint16_t group_most[kMostGroups];
  int group;    ///< the group that is looked at
  int passed;   ///< tiles before this group
  int shorter;  ///< the tiles looked at have so many shorter ones in their segments
};

/// The tiles on their way from the warp that finds them to the warps that work on them. It lies in
/// shared memory.
struct TileQueue {
  static constexpr int kStages = 2;
  std::uint64_t ready[kStages], free[kStages];
  std::uint64_t wanted;  ///< the warp that copies asks for the tile after its own
  SegmentTile tiles[kStages];
  TableWalk walk;

  /// Called by one thread, before fence_barrier_init. `readers` counts threads.
  __device__ void init(int readers) {
    barrier(wanted).init(1);
    for (int i = 0; i < kStages; ++i) {
      barrier(ready[i]).init(1);
      barrier(free[i]).init(readers);
    }
  }
};

/// One thread's way through the queue.
class TileReader {
 public:
  __device__ explicit TileReader(TileQueue& queue) : queue_(queue) {}
  /// Waits for the next tile and returns it; one without rows is the end. It stays until done().
  __device__ const SegmentTile& get() const {
    barrier(queue_.ready[at_.stage()]).wait(at_.parity());
    return queue_.tiles[at_.stage()];
  }
  /// Gives the tile's place back.
  __device__ void done() {
    barrier(queue_.free[at_.stage()]).arrive();
    at_.advance();
  }
  /// Called by the thread that copies, at each step, with `steps` of the tile's `all` yet to copy:
  /// asks for the next tile when few are left. If it asked earlier, long tiles would wait for
  /// long ones; if it asked later, copies would pause.
  __device__ void ask_for_next(int steps, int all) const {
    constexpr int kSteps = 4;
    if (steps == min(all, kSteps)) barrier(queue_.wanted).arrive();
  }

 private:
  TileQueue& queue_;
  RingPosition<TileQueue::kStages> at_;
};

/// Finds tiles of kRows of the segments' rows, longest first. All its functions are for a whole
/// warp.
///
/// In a table, tile t of a segment is the one after t shorter ones, and the tiles of all segments
/// that have the same t are neighbours. The finder walks over them from the largest t on, group by
/// group of 32 segments, and finds items of ascending ranks on its way.
template <int kRows>
class TileFinder {
 public:
  /// `walk` must lie in shared memory. With `last_first` a segment's last rows make its longest
  /// tile.
  __device__ TileFinder(const Segments& segments, const WorkOrder& order, int heads,
                        bool last_first, TableWalk& walk)
      : segments_(segments), order_(order), heads_(heads), last_first_(last_first), walk_(walk) {
    if (segments_.uniform_length == 0) count_tiles();
  }

  [[nodiscard]] __device__ int items() const { return order_.tiles * order_.lanes; }

  /// Returns the tile of item i; this is quick if it follows shortly after that of the call before.
  __device__ SegmentTile at(int i) {
    if (i >= items()) return {};
    const WorkOrder::Item item = order_.at(i);
    SegmentTile tile;
    int shorter = order_.tiles - 1 - item.rank;
    if (segments_.uniform_length == 0) {
      tile.segment = segments_.at(segment_of(item.rank));
      tile.head = item.lane;
      shorter = walk_.shorter;
    } else {
      tile.segment = segments_.at(item.lane / heads_);
      tile.head = item.lane % heads_;
    }
    const int tiles = tiles_in(tile.segment.q_length);
    tile.begin = (last_first_ ? shorter : tiles - 1 - shorter) * kRows;
    tile.rows = min(kRows, tile.segment.q_length - tile.begin);
    return tile;
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int tiles_in(int rows) { return (rows + kRows - 1) / kRows; }
  /// Returns the number of tiles of segment i; 0 after the table's end.
  __device__ int tiles_of(int i) const {
    return i < segments_.count ? tiles_in(segments_.table[5 * i + 2]) : 0;
  }

  __device__ void count_tiles() {
    order_.tiles = 0;
    int groups = 0;
    int all_most = 0;
#pragma unroll 1  // the warp has few registers
    for (int first = 0; first < segments_.count; first += 32) {
      const int tiles = tiles_of(first + lane());
      const int most = __reduce_max_sync(~0u, tiles);
      if (most == 0) break;  // the rest of the table is unused
      if (lane() == 0) walk_.group_most[groups] = static_cast<std::uint16_t>(most);
      ++groups;
      all_most = max(all_most, most);
      order_.tiles += __reduce_add_sync(~0u, tiles);
    }
    if (lane() == 0) {
      walk_.groups = groups;
      walk_.most = all_most;
    }
    set_walk(0, 0, all_most - 1);
  }
  __device__ void set_walk(int group, int passed, int shorter) {
    __syncwarp();
    if (lane() == 0) {
      walk_.group = group;
      walk_.passed = passed;
      walk_.shorter = shorter;
    }
    __syncwarp();
  }

  /// Walks to the tile of this rank, and returns its segment.
  __device__ int segment_of(int rank) {
    int group = walk_.group;
    int passed = walk_.passed;
    int shorter = walk_.shorter;
    if (rank < passed) {  // the rank belongs to another section
      group = passed = 0;
      shorter = walk_.most - 1;
    }
    unsigned longer = 0;
#pragma unroll 1
    for (;; next_group(group, shorter)) {
      longer = __ballot_sync(~0u, tiles_of(32 * group + lane()) > shorter);
      if (rank < passed + __popc(longer)) break;
      passed += __popc(longer);
    }
    set_walk(group, passed, shorter);
    const int before = __popc(longer & ((1u << lane()) - 1));
    const bool here = (longer >> lane() & 1) != 0 && before == rank - passed;
    return 32 * group + __ffs(static_cast<int>(__ballot_sync(~0u, here))) - 1;
  }
  /// Goes on to the next group with a segment of more than `shorter` tiles, or else to the first
  /// group with one tile less.
  __device__ void next_group(int& group, int& shorter) const {
    ++group;
#pragma unroll 1
    for (;;) {
      const int mine = group + lane();
      const bool longer = mine < walk_.groups && walk_.group_most[mine] > shorter;
      const unsigned found = __ballot_sync(~0u, longer);
      if (found != 0) {
        group += __ffs(static_cast<int>(found)) - 1;
        return;
      }
      group += 32;
      if (group >= walk_.groups) {
        group = 0;
        --shorter;
      }
    }
  }

  Segments segments_;
  WorkOrder order_;
  int heads_;
  bool last_first_;
  TableWalk& walk_;
};

/// Does the work of the finding warp: it puts all tiles of this block into the queue. The first
/// comes without asking; each further one is asked for once, so all blocks together ask as often as
/// there are items, and `counter` is back at 0 in the end. For `last_first` see TileFinder.
/// `change` is called with each tile.
template <int kRows, class Change>
__device__ void find_tiles(const Segments& segments, const WorkOrder& order, int heads,
                           bool last_first, TileCounter* counter, TileQueue& queue,
                           const Change& change) {
  TileFinder<kRows> finder(segments, order, heads, last_first, queue.walk);
  RingPosition<TileQueue::kStages> at;
  for (unsigned item = blockIdx.x;; at.advance()) {
    SegmentTile tile = finder.at(static_cast<int>(item));
    change(tile);
    barrier(queue.free[at.stage()]).wait(at.parity() ^ 1);
    if (threadIdx.x % 32 == 0) {
      queue.tiles[at.stage()] = tile;
      barrier(queue.ready[at.stage()]).arrive();
    }
    if (tile.rows == 0) return;
    barrier(queue.wanted).wait(at.count & 1);
    if (threadIdx.x % 32 == 0) {
      item = gridDim.x + atomicInc(counter, static_cast<unsigned>(finder.items()) - 1);
    }
    item = __shfl_sync(~0u, item, 0);
  }
}

template <int kRows>
__device__ void find_tiles(const Segments& segments, const WorkOrder& order, int heads,
                           bool last_first, TileCounter* counter, TileQueue& queue) {
  find_tiles<kRows>(segments, order, heads, last_first, counter, queue, [](SegmentTile&) {});
}

}  // namespace strata::cuda
