// A part of a block is cut at segment borders, since weight decay changes there, and each piece is
// one submission of AdamW. Rounding is numbered by elements of the whole block, or of the segment
// where moments are codes, so cuts do not change it.

#include "strata/optimizer/adamw_rule.h"

#include <algorithm>
#include <vector>

namespace strata {

namespace {

/// Consecutive elements of a part of a block that belong to one segment.
struct SegmentRange {
  const Segment* segment = nullptr;
  std::int64_t begin = 0;  ///< in the part
  std::int64_t end = 0;
};

/// Cuts elements [begin, end) of a block at segment borders; the ranges count from `begin`.
/// Alignment gaps belong to the segment before them: their weights and gradients are zero and stay
/// zero.
std::vector<SegmentRange> segment_ranges(const Block& block, std::int64_t begin, std::int64_t end) {
  std::vector<SegmentRange> ranges;
  for (std::size_t i = 0; i < block.segments.size(); ++i) {
    const bool last = i + 1 == block.segments.size();
    const std::int64_t from = std::max(begin, block.segments[i].offset);
    const std::int64_t to = last ? end : std::min(end, block.segments[i + 1].offset);
    if (from < to) ranges.push_back({&block.segments[i], from - begin, to - begin});
  }
  return ranges;
}

}  // namespace

void AdamWRule::submit(Kernels& kernels, Stream& lane, BlockId block, const BlockState& part,
                       const ConstTensorView& gradient, const Numbers& numbers,
                       const Tag& tag) const {
  const std::int64_t n = part.weight.elements();
  const bool coded = part.m.dtype == kMomentCode;
  for (const SegmentRange& range :
       segment_ranges(layout_.blocks[block], part.begin, part.begin + n)) {
    const Segment& segment = *range.segment;
    const std::int64_t count = range.end - range.begin;
    const bool decays = segment.decay || options_.decay_norms;
    const std::int64_t place = part.begin + range.begin;  // in the block
    kernels.run(lane,
                AdamW{.weight = part.weight.slice_rows(range.begin, count),
                      .low = part.low ? part.low.slice_rows(range.begin, count) : TensorView{},
                      .m = part.m.slice_rows(range.begin, count),
                      .v = part.v.slice_rows(range.begin, count),
                      .scale = coded ? slice_of(part, &BlockState::scale, range.begin, count)
                                     : TensorView{},
                      .grad = gradient.slice_rows(range.begin, count),
                      .scalars = numbers.scalars,
                      .weight_decay = decays ? options_.weight_decay : 0.0,
                      .rounding_stream = coded ? stream_of(segment.name)
                                               : static_cast<std::uint64_t>(block.value()),
                      .rounding_begin = coded ? place - segment.offset : place,
                      .nonfinite = numbers.nonfinite,
                      .rare = numbers.rare},
                tag);
  }
}

}  // namespace strata
