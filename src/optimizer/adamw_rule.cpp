// Cuts a part of a block where weight decay changes, and submits one AdamW for each piece.

#include "strata/optimizer/adamw_rule.h"

#include <algorithm>
#include <vector>

namespace strata {

namespace {

/// Consecutive elements of a part of a block that all decay or all do not.
struct DecayRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool decay = false;
};

/// Cuts elements [begin, end) of a block at segment borders; the ranges count from `begin`.
/// Alignment gaps belong to the segment before them: their weights and gradients are zero and stay
/// zero.
std::vector<DecayRange> decay_ranges(const Block& block, std::int64_t begin, std::int64_t end) {
  std::vector<DecayRange> ranges;
  for (std::size_t i = 0; i < block.segments.size(); ++i) {
    const bool last = i + 1 == block.segments.size();
    const std::int64_t from = std::max(begin, block.segments[i].offset);
    const std::int64_t to = last ? end : std::min(end, block.segments[i + 1].offset);
    if (from < to) ranges.push_back({from - begin, to - begin, block.segments[i].decay});
  }
  return ranges;
}

}  // namespace

void AdamWRule::submit(Kernels& kernels, Stream& lane, BlockId block, const BlockState& part,
                       const ConstTensorView& gradient, const Numbers& numbers,
                       const Tag& tag) const {
  const std::int64_t n = part.weight.elements();
  for (const DecayRange& range : decay_ranges(layout_.blocks[block], part.begin, part.begin + n)) {
    const std::int64_t count = range.end - range.begin;
    const bool decays = range.decay || options_.decay_norms;
    kernels.run(lane,
                AdamW{.weight = part.weight.slice_rows(range.begin, count),
                      .low = part.low ? part.low.slice_rows(range.begin, count) : TensorView{},
                      .m = part.m.slice_rows(range.begin, count),
                      .v = part.v.slice_rows(range.begin, count),
                      .grad = gradient.slice_rows(range.begin, count),
                      .scalars = numbers.scalars,
                      .weight_decay = decays ? options_.weight_decay : 0.0,
                      .rounding_stream = static_cast<std::uint64_t>(block.value()),
                      .rounding_begin = part.begin + range.begin,
                      .nonfinite = numbers.nonfinite,
                      .rare = numbers.rare},
                tag);
  }
}

}  // namespace strata
