#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "strata/ops/attention.h"

namespace strata::cpu {

/// One row of AttentionSegments::table.
struct Segment {
  std::int64_t q_begin, k_begin, q_length, k_length, q_offset;

  /// Keys that query i of the segment sees: [0, visible(i)).
  [[nodiscard]] std::int64_t visible(std::int64_t i) const;
  /// First query of the segment that sees key j.
  [[nodiscard]] std::int64_t first_query(std::int64_t j) const;
};

/// A run of queries of one segment.
struct QueryBlock {
  Segment segment;
  std::int64_t begin, end;  ///< queries of the segment
};

/// The used segments in table order. Throws ShapeError for one that leaves q or k.
[[nodiscard]] std::vector<Segment> read_segments(std::string_view op,
                                                 const AttentionSegments& segments,
                                                 std::int64_t queries, std::int64_t keys);
/// All queries of all segments in runs of at most `length`.
[[nodiscard]] std::vector<QueryBlock> query_blocks(const std::vector<Segment>& segments,
                                                   std::int64_t length);

}  // namespace strata::cpu
