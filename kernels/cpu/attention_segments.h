// This file describes the segments of an attention operator as the CPU kernels walk over them:
// which keys a query sees, and how queries are cut into blocks of parallel work. Attention's
// forward and backward use it. A segment that leaves q or k is refused here, so that the loops need
// no checks.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "strata/ops/attention.h"

namespace strata::cpu {

/// One row of AttentionSegments::table. Queries and keys count from the beginnings of the segment.
struct Segment {
  std::int64_t q_begin, k_begin, q_length, k_length, q_offset;

  /// Query i sees keys [0, visible(i)) of the segment; returns the end of that range.
  [[nodiscard]] std::int64_t visible(std::int64_t i) const;
  /// Returns the first query of the segment that sees key j, or q_length if none does.
  [[nodiscard]] std::int64_t first_query(std::int64_t j) const;
};

/// A run of queries of one segment.
struct QueryBlock {
  Segment segment;
  std::int64_t begin,
      end;  ///< the first query of the run and the one after its last, in the segment
};

/// Returns the segments that have queries, in table order. Throws ShapeError, naming operator `op`,
/// for one that leaves the `queries` rows of q or the `keys` rows of k.
[[nodiscard]] std::vector<Segment> read_segments(std::string_view op,
                                                 const AttentionSegments& segments,
                                                 std::int64_t queries, std::int64_t keys);
/// Returns all queries of all segments in runs of at most `length`.
[[nodiscard]] std::vector<QueryBlock> query_blocks(const std::vector<Segment>& segments,
                                                   std::int64_t length);

}  // namespace strata::cpu
