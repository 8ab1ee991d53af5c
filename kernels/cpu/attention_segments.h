// This file describes the segments of an attention operator as the CPU kernels walk over them:
// which keys a query sees, and how queries are cut into blocks of parallel work. Attention's
// forward and backward use it. A segment that leaves q or k is refused here, so that the loops need
// no checks.

#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "strata/ops/attention.h"

namespace strata::cpu {

/// One row of AttentionSegments::table, with the operator's window. Queries and keys count from the
/// beginnings of the segment.
struct Segment {
  static constexpr std::int64_t kNoWindow = std::numeric_limits<std::int64_t>::max() / 2;
  std::int64_t q_begin, k_begin, q_length, k_length, q_offset;
  std::int64_t window = kNoWindow;

  /// Query i sees keys [first_key(i), visible(i)) of the segment; returns the end of that range.
  [[nodiscard]] std::int64_t visible(std::int64_t i) const;
  [[nodiscard]] std::int64_t first_key(std::int64_t i) const;
  /// Queries [first_query(j), end_query(j)) of the segment see key j; if none does, both are equal.
  [[nodiscard]] std::int64_t first_query(std::int64_t j) const;
  [[nodiscard]] std::int64_t end_query(std::int64_t j) const;
  /// Returns the same without its first `keys` keys.
  [[nodiscard]] Segment without_first(std::int64_t keys) const;
};

/// A run of queries of one segment.
struct QueryBlock {
  Segment segment;
  std::int64_t begin,
      end;  ///< the first query of the run and the one after its last, in the segment
};

/// Returns the segments that have queries, in table order, with a window unless that is 0. Throws
/// ShapeError, naming operator `op`, for one that leaves the `queries` rows of q or the `keys` rows
/// of k.
[[nodiscard]] std::vector<Segment> read_segments(std::string_view op,
                                                 const AttentionSegments& segments,
                                                 std::int64_t queries, std::int64_t keys,
                                                 std::int64_t window = 0);
/// Returns all queries of all segments in runs of at most `length`.
[[nodiscard]] std::vector<QueryBlock> query_blocks(const std::vector<Segment>& segments,
                                                   std::int64_t length);

}  // namespace strata::cpu
