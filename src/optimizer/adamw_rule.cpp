// A part of a block is cut where another run of parameters begins, at the latest with the next
// segment, and each piece is one submission of AdamW. Rounding is numbered by elements of the whole
// block, or of the segment where moments are codes, so cuts do not change it.

#include "strata/optimizer/adamw_rule.h"

#include <algorithm>

namespace strata {

void AdamWRule::submit(Kernels& kernels, Stream& lane, BlockId block, const BlockState& part,
                       const ConstTensorView& gradient, const Numbers& numbers,
                       const Tag& tag) const {
  const std::int64_t n = part.weight.elements();
  const bool coded = part.m.dtype == kMomentCode;
  for (const ParameterRun& run : runs_[block]) {
    const std::int64_t begin = std::max(part.begin, run.begin);
    const std::int64_t count = std::min(part.begin + n, run.end) - begin;
    if (count <= 0) continue;
    const Segment& segment = *run.segment;
    const std::int64_t first = begin - part.begin;
    kernels.run(
        lane,
        AdamW{.weight = part.weight.slice_rows(first, count),
              .low = part.low ? part.low.slice_rows(first, count) : TensorView{},
              .m = part.m.slice_rows(first, count),
              .v = part.v.slice_rows(first, count),
              .scale = coded ? slice_of(part, &BlockState::scale, first, count) : TensorView{},
              .grad = gradient.slice_rows(first, count),
              .scalars = numbers.scalars,
              .lr_factor = run.lr_factor,
              .weight_decay = run.weight_decay,
              .rounding_stream =
                  coded ? stream_of(segment.name) : static_cast<std::uint64_t>(block.value()),
              .rounding_begin = coded ? begin - segment.offset : begin,
              .nonfinite = numbers.nonfinite,
              .rare = numbers.rare},
        tag);
  }
}

}  // namespace strata
