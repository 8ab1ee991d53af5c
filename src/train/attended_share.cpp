// Lengths are read from the tables of attention segments that the batch loader has filled, which
// strata/data/batch.h describes.

#include "train/attended_share.h"

#include <array>
#include <cstddef>

namespace strata {

double attended_pairs(const PassBuffers& buffers) {
  constexpr std::size_t kColumns = kSegmentColumns, kLength = 2;  // q_length, see there
  const std::size_t table = buffers.segments.size() / buffers.segment_counts.size();
  double pairs = 0;
  for (std::size_t s = 0; s < buffers.segment_counts.size(); ++s) {
    const auto rows = buffers.segments.subspan(s * table, table);
    for (std::size_t i = 0; i < static_cast<std::size_t>(buffers.segment_counts[s]); ++i) {
      const auto length = static_cast<double>(rows[i * kColumns + kLength]);
      pairs += length * length;
    }
  }
  return pairs;
}

double attended_share(double pairs, const BatchOptions& batches, Ranks& ranks) {
  const auto tokens = static_cast<double>(batches.shape.tokens);
  const auto rows =
      static_cast<double>(batches.passes * batches.shape.sub_batches * batches.shape.rows);
  std::array<double, 2> sums{pairs, rows * tokens * tokens};
  ranks.all_reduce_sum(sums, Channel::kSubmit);
  return sums[0] / sums[1];
}

}  // namespace strata
