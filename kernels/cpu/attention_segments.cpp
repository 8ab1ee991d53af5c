// This file reads the table of segments that an attention operator names, checks it, and cuts its
// queries into blocks. The CPU's forward and backward call it before they start threads;
// attention_segments.h is the contract.

#include "kernels/cpu/attention_segments.h"

#include <algorithm>
#include <string>

#include "strata/base/error.h"

namespace strata::cpu {

std::int64_t Segment::visible(std::int64_t i) const {
  return std::clamp<std::int64_t>(i + q_offset + 1, 0, k_length);
}

std::int64_t Segment::first_key(std::int64_t i) const {
  return std::clamp<std::int64_t>(i + q_offset + 1 - window, 0, visible(i));
}

std::int64_t Segment::first_query(std::int64_t j) const {
  return std::clamp<std::int64_t>(j - q_offset, 0, q_length);
}

std::int64_t Segment::end_query(std::int64_t j) const {
  return std::clamp<std::int64_t>(j - q_offset + window, first_query(j), q_length);
}

Segment Segment::without_first(std::int64_t keys) const {
  return {q_begin, k_begin + keys, q_length, k_length - keys, q_offset - keys, window};
}

std::vector<Segment> read_segments(std::string_view op, const AttentionSegments& segments,
                                   std::int64_t queries, std::int64_t keys, std::int64_t window) {
  if (window == 0) window = Segment::kNoWindow;
  std::vector<Segment> list;
  if (const std::int64_t length = segments.uniform_length; length > 0) {
    for (std::int64_t begin = 0; begin < queries; begin += length) {
      list.push_back({begin, begin, length, length, 0, window});
    }
    return list;
  }
  const auto* entry = segments.table.as<std::int32_t>();
  for (std::int64_t i = 0; i < segments.table.rows(); ++i, entry += 5) {
    const Segment s{entry[0], entry[1], entry[2], entry[3], entry[4], window};
    if (s.q_length == 0) continue;
    if (std::min({s.q_begin, s.k_begin, s.q_length, s.k_length}) < 0 ||
        s.q_begin + s.q_length > queries || s.k_begin + s.k_length > keys) {
      throw ShapeError(std::string(op) + ": segment " + std::to_string(i) + " leaves q of " +
                       std::to_string(queries) + " or k of " + std::to_string(keys) + " tokens");
    }
    list.push_back(s);
  }
  return list;
}

std::vector<QueryBlock> query_blocks(const std::vector<Segment>& segments, std::int64_t length) {
  std::vector<QueryBlock> blocks;
  for (const Segment& s : segments) {
    for (std::int64_t begin = 0; begin < s.q_length; begin += length) {
      blocks.push_back({s, begin, std::min(begin + length, s.q_length)});
    }
  }
  return blocks;
}

}  // namespace strata::cpu
