// What a loader writes of one pass, in memory of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "strata/data/batch.h"

namespace strata::test {

/// The buffers of a pass, as many as the options ask for; -9 where nothing was written.
struct Pass {
  explicit Pass(const BatchOptions& options, bool wants_reference = false) {
    const auto all = [&](std::int64_t in_a_sub_batch) {
      return static_cast<std::size_t>(options.shape.sub_batches * in_a_sub_batch);
    };
    for (auto* const of_tokens : {&ids, &targets, &positions, &order}) {
      of_tokens->assign(all(options.shape.sub_batch_tokens()), -9);
    }
    segments.assign(all(segment_entries(options.shape, options.mask) * kSegmentColumns), -9);
    segment_counts.assign(all(1), -9);
    const std::int64_t entries = pair_entries(options.shape);
    if (options.pairs) pairs.assign(all(entries * kPairColumns), -9);
    if (options.pairs) pair_counts.assign(all(1), -9);
    if (wants_reference) reference_logs.assign(all(entries * 2), -9);
  }
  [[nodiscard]] PassBuffers buffers() {
    return {ids,   targets,     positions,     segments, order, segment_counts,
            pairs, pair_counts, reference_logs};
  }

  std::vector<std::int32_t> ids, targets, positions, segments, order, pairs;
  std::vector<std::int64_t> segment_counts, pair_counts;
  std::vector<double> reference_logs;
  std::int64_t valid = 0;  ///< targets that count
};

}  // namespace strata::test
