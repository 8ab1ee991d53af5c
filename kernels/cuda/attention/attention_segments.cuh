// This file has the arguments of the attention kernels, and decides which thread block computes
// which tile. Segments (see strata/ops/attention.h) are cut into tiles, in an order that is long
// work first and keeps what neighbours share in the L2 cache. The portable and the sm_90a kernels
// include it; its second half runs on the host and builds the arguments. Which block computes a
// tile changes no bit of the result.

#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/common/launch.cuh"
#include "strata/base/narrow.h"
#include "strata/ops/attention.h"

namespace strata::cuda {

/// A tensor [rows, heads, head_dim] whose heads of a row lie next to each other.
template <class T>
struct HeadRows {
  T* data;
  std::int64_t stride;  ///< elements from one row to the next
  int head_dim;

  __device__ T* row(std::int64_t row, int head) const {
    return data + row * stride + head * head_dim;
  }
};

/// The tables of RopeAngles, as kernels take them.
struct Rotation {
  const std::int32_t* positions;  ///< null: rows are not turned
  const float* cos;
  const float* sin;
};

/// Which scores a kernel computes. Each kind is an instance of its own, so that plain scores pay
/// for nothing that others need.
enum class ScoreKind : std::uint8_t {
  kPlain,
  kWindowed,
  kCapped,  ///< with a window, which may be none
};

/// The window of operators that have none. It may be added to a row.
inline constexpr int kNoWindow = 1 << 30;

/// The window and the cap of an operator, as kernels take them.
struct ScoreShape {
  int window;    ///< query i of a segment sees no key up to i + q_offset - window
  float cap;     ///< 0 if there is none
  float inward;  ///< scale / cap: what dots are multiplied by before their tanh

  /// Returns the tanh that a dot becomes; times the cap it is the score.
  __device__ __forceinline__ float bent(float dot) const { return tanhf(dot * inward); }
};

/// One segment. Query i (0 .. q_length - 1) sees keys 0 .. min(i + q_offset, k_length - 1); both
/// count from the segment's beginnings.
struct Segment {
  int q_begin, k_begin, q_length, k_length, q_offset;
};

/// All segments of an operator: a table, or rows of one length.
struct Segments {
  const int* table;  ///< [count, 5]; it is not read if uniform_length > 0
  int count;
  int uniform_length;

  __device__ Segment at(int i) const {
    if (uniform_length > 0) {
      const int begin = i * uniform_length;
      return {begin, begin, uniform_length, uniform_length, 0};
    }
    const int* entry = table + 5 * i;
    return {entry[0], entry[1], entry[2], entry[3], entry[4]};
  }
};

/// The order of work items. An item is a pair of (one of `tiles`, one of `lanes`); a lane is what
/// shares keys and values (or queries): a head of a row. Tiles of low rank are long and come first.
/// Lanes come in sections that fit the L2 cache together, but for the shortest quarter of the
/// tiles: those of all lanes come at the end, so that all multiprocessors finish together.
struct WorkOrder {
  int tiles;
  int lanes;
  int section;  ///< lanes of a section; the last one may be smaller

  struct Item {
    int rank;
    int lane;
  };
  __device__ Item at(int i) const {
    const int sectioned = tiles - tiles / 4;
    const int rest = i - sectioned * lanes;
    if (rest >= 0) return {sectioned + rest / lanes, rest % lanes};
    const int first_lane = i / (sectioned * section) * section;
    const int within = i - first_lane * sectioned;
    const int width = min(section, lanes - first_lane);
    return {within / width, first_lane + within % width};
  }
};

/// A run of queries of one segment for one head.
struct QueryTile {
  Segment segment;
  int head;
  int begin;  ///< the first row, counted from the segment's queries
  int rows;   ///< 1 .. the tile's size

  /// Returns the last key that the tile's first query sees; row i sees i more, up to the segment's
  /// end.
  __device__ int last_key() const { return begin + segment.q_offset; }
  __device__ int first_row() const { return segment.q_begin + begin; }
  /// Returns how many keys any of the rows sees.
  __device__ int visible_keys() const { return max(0, min(segment.k_length, last_key() + rows)); }
  /// Returns how many keys, from the first on, all rows see, but for a window.
  __device__ int keys_seen_by_all() const { return max(0, min(segment.k_length, last_key() + 1)); }
  /// Returns the first key that any of the rows sees through a window.
  __device__ int first_key(int window) const {
    return min(visible_keys(), max(0, last_key() + 1 - window));
  }
};

/// Tiles of kRows queries over all segments and heads.
struct QueryTiles {
  Segments segments;
  WorkOrder order;
  int heads;

  /// Finds the tile of work item i; returns false if there is none.
  template <int kRows>
  __device__ bool locate(int i, QueryTile& tile) const {
    const WorkOrder::Item item = order.at(i);
    if (segments.uniform_length > 0) {
      tile.segment = segments.at(item.lane / heads);
      tile.head = item.lane % heads;
      tile.begin = (order.tiles - 1 - item.rank) * kRows;  // late queries see most keys
      tile.rows = min(kRows, tile.segment.q_length - tile.begin);
      return true;
    }
    tile.head = item.lane;
    int tiles_before = 0;
    for (int s = 0; s < segments.count; ++s) {
      tile.segment = segments.at(s);
      if (tile.segment.q_length == 0) return false;  // the rest of the table is unused
      const int tiles = (tile.segment.q_length + kRows - 1) / kRows;
      if (item.rank < tiles_before + tiles) {
        tile.begin = (item.rank - tiles_before) * kRows;
        tile.rows = min(kRows, tile.segment.q_length - tile.begin);
        return true;
      }
      tiles_before += tiles;
    }
    return false;
  }
};

/// A run of keys for one kv head, and the segments that may look at it.
struct KeyBlock {
  int begin;  ///< row of k and v
  int rows;   ///< 1 .. the block's size
  int kv_head;
  int first_segment;
  int end_segment;
};

/// Blocks of kRows keys over all rows of k and kv heads. With uniform segments blocks begin with
/// the segments; else they cut k at multiples of kRows, whatever the segments.
struct KeyBlocks {
  Segments segments;
  WorkOrder order;
  int kv_heads;
  int key_rows;  ///< the rows of k and v in all

  template <int kRows>
  __device__ KeyBlock at(int i) const {
    const WorkOrder::Item item = order.at(i);  // early keys are seen by most queries
    if (segments.uniform_length > 0) {
      const int segment = item.lane / kv_heads;
      const int begin = item.rank * kRows;
      return {segment * segments.uniform_length + begin,
              min(kRows, segments.uniform_length - begin), item.lane % kv_heads, segment,
              segment + 1};
    }
    const int begin = item.rank * kRows;
    return {begin, min(kRows, key_rows - begin), item.lane, 0, segments.count};
  }
};

// --- Host side -----------------------------------------------------------------------------------

template <class T, class Void>
[[nodiscard]] HeadRows<T> head_rows(const BasicTensorView<Void>& view) {
  return {static_cast<T*>(view.data), view.row_stride, narrow<int>(view.shape[2])};
}

/// Returns the window and the cap of an operator of attention.
template <class O>
[[nodiscard]] ScoreShape score_shape(const O& op) {
  const bool capped = op.score_cap > 0;
  return {.window =
              op.window > 0 ? narrow<int>(std::min<std::int64_t>(op.window, kNoWindow)) : kNoWindow,
          .cap = static_cast<float>(op.score_cap),
          .inward = capped ? static_cast<float>(op.scale / op.score_cap) : 0.0f};
}

/// Returns what a softmax multiplies scores by: where they are capped they are scaled already.
template <class O>
[[nodiscard]] double softmax_scale(const O& op) {
  return op.score_cap > 0 ? 1.0 : op.scale;
}

/// Calls launch.operator()<the kind of the operator's scores>(). A window as long as rows is none.
template <class O, class F>
void with_score_kind(const O& op, std::int64_t uniform_length, const F& launch) {
  const bool hides = op.window > 0 && (uniform_length == 0 || op.window < uniform_length);
  if (op.score_cap > 0) {
    launch.template operator()<ScoreKind::kCapped>();
  } else if (hides) {
    launch.template operator()<ScoreKind::kWindowed>();
  } else {
    launch.template operator()<ScoreKind::kPlain>();
  }
}

[[nodiscard]] inline Rotation make_rotation(const RopeAngles& from) {
  if (!from.positions) return {};
  return {from.positions.as<std::int32_t>(), from.cos.as<float>(), from.sin.as<float>()};
}

[[nodiscard]] inline Segments make_segments(const AttentionSegments& from,
                                            std::int64_t query_rows) {
  if (from.uniform_length > 0) {
    return {nullptr, narrow<int>(query_rows / from.uniform_length),
            narrow<int>(from.uniform_length)};
  }
  return {from.table.as<std::int32_t>(), narrow<int>(from.table.rows()), 0};
}

/// What a section's lanes share: well within the L2 cache of the GPUs that this is made for (40 MiB
/// and more). On an H200, 24 and 40 MiB differ by 1 %; without sections long rows lose 5 %.
inline constexpr std::int64_t kSectionBytes = std::int64_t{32} << 20;
/// How many tiles a section has for each multiprocessor, at least: with fewer the next section's
/// long tiles come beside this one's short ones, and the last of them late.
inline constexpr std::int64_t kSectionRounds = 2;

/// Makes the order of `tiles` tiles in each of `lanes` lanes. `lane_bytes` is what one lane's tiles
/// share; `group` lanes share the same, and stay together.
[[nodiscard]] inline WorkOrder make_order(std::int64_t tiles, std::int64_t lanes,
                                          std::int64_t lane_bytes, std::int64_t group) {
  const std::int64_t groups = lanes / group;
  const std::int64_t group_tiles = std::max<std::int64_t>(tiles * group, 1);
  const std::int64_t fitting = std::max(
      {kSectionBytes / std::max<std::int64_t>(lane_bytes, 1),
       (kSectionRounds * multiprocessors() + group_tiles - 1) / group_tiles, std::int64_t{1}});
  const std::int64_t sections = std::max<std::int64_t>((groups + fitting - 1) / fitting, 1);
  const std::int64_t section = (groups + sections - 1) / sections * group;
  return {narrow<int>(tiles), narrow<int>(lanes), narrow<int>(section)};
}

/// Cuts the queries of all segments into tiles of `rows`.
[[nodiscard]] inline QueryTiles make_query_tiles(const AttentionSegments& from,
                                                 const ConstTensorView& q, const ConstTensorView& k,
                                                 int rows) {
  const std::int64_t heads = q.shape[1];
  const std::int64_t group = heads / k.shape[1];
  const Segments segments = make_segments(from, q.shape[0]);
  const std::int64_t key_bytes = 2 * k.shape[2] * static_cast<std::int64_t>(size_of(k.dtype));
  if (from.uniform_length > 0) {
    const std::int64_t tiles = (from.uniform_length + rows - 1) / rows;
    return {segments,
            make_order(tiles, segments.count * heads, from.uniform_length * key_bytes, group),
            narrow<int>(heads)};
  }
  // A segment fills its last tile partly: at most one tile more for each.
  const std::int64_t tiles = q.shape[0] / rows + segments.count;
  return {segments, make_order(tiles, heads, k.shape[0] * key_bytes, group), narrow<int>(heads)};
}

/// Cuts the keys of all segments into tiles of `rows`, segment by segment, and orders them: for
/// segments that attend to themselves.
[[nodiscard]] inline WorkOrder make_key_tile_order(const AttentionSegments& from,
                                                   const ConstTensorView& q,
                                                   const ConstTensorView& k, int rows) {
  const std::int64_t kv_heads = k.shape[1];
  const std::int64_t row_bytes =
      2 * q.shape[2] * (q.shape[1] / kv_heads) * static_cast<std::int64_t>(size_of(q.dtype));
  if (from.uniform_length > 0) {
    const std::int64_t tiles = (from.uniform_length + rows - 1) / rows;
    return make_order(tiles, k.shape[0] / from.uniform_length * kv_heads,
                      from.uniform_length * row_bytes, 1);
  }
  return make_order(k.shape[0] / rows + from.table.rows(), kv_heads, k.shape[0] * row_bytes, 1);
}

/// Cuts all rows of k into blocks of `rows` keys.
[[nodiscard]] inline KeyBlocks make_key_blocks(const AttentionSegments& from,
                                               const ConstTensorView& q, const ConstTensorView& k,
                                               int rows) {
  const std::int64_t kv_heads = k.shape[1];
  const Segments segments = make_segments(from, q.shape[0]);
  const std::int64_t query_bytes =
      2 * q.shape[2] * (q.shape[1] / kv_heads) * static_cast<std::int64_t>(size_of(q.dtype));
  const bool uniform = from.uniform_length > 0;
  const std::int64_t length = uniform ? from.uniform_length : k.shape[0];
  const std::int64_t lanes = uniform ? segments.count * kv_heads : kv_heads;
  return {segments, make_order((length + rows - 1) / rows, lanes, length * query_bytes, 1),
          narrow<int>(kv_heads), narrow<int>(k.shape[0])};
}

}  // namespace strata::cuda
