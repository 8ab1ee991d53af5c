// A part of a block is cut where another run of parameters begins, at the latest with the next
// segment, and each piece is one submission of the optimizer's operator. Rounding is numbered by
// elements of the whole block, or of the segment where moments are codes, so cuts do not change it.

#include "strata/optimizer/update_rule.h"

#include <algorithm>

namespace strata {

namespace {

/// Returns what an optimizer with one moment computes.
MomentumFormula formula_of(OptimizerKind kind, bool nesterov) {
  if (kind == OptimizerKind::kLion) return MomentumFormula::kLion;
  return nesterov ? MomentumFormula::kNesterov : MomentumFormula::kSgd;
}

}  // namespace

void UpdateRule::submit(Kernels& kernels, Stream& lane, BlockId block, const BlockState& part,
                        const ConstTensorView& gradient, const Numbers& numbers,
                        const Tag& tag) const {
  const std::int64_t n = part.weight.elements();
  const bool coded = part.m.dtype == kMomentCode;
  for (const ParameterRun& run : runs_[block]) {
    const std::int64_t begin = std::max(part.begin, run.begin);
    const std::int64_t count = std::min(part.begin + n, run.end) - begin;
    if (count <= 0 || run.rows > 0) continue;
    const Segment& segment = *run.segment;
    const std::int64_t first = begin - part.begin;
    /// Sets what every update has.
    const auto filled = [&](auto op) {
      op.weight = part.weight.slice_rows(first, count);
      if (part.low) op.low = part.low.slice_rows(first, count);
      op.m = part.m.slice_rows(first, count);
      op.grad = gradient.slice_rows(first, count);
      op.scalars = numbers.scalars;
      op.lr_factor = run.lr_factor;
      op.weight_decay = run.weight_decay;
      op.rounding_stream =
          coded ? stream_of(segment.name) : static_cast<std::uint64_t>(block.value());
      op.rounding_begin = coded ? begin - segment.offset : begin;
      op.nonfinite = numbers.nonfinite;
      op.rare = numbers.rare;
      return op;
    };
    if (kind_ == OptimizerKind::kAdamW || kind_ == OptimizerKind::kMuon) {
      AdamW op = filled(AdamW{});
      op.v = part.v.slice_rows(first, count);
      if (coded) op.scale = slice_of(part, &BlockState::scale, first, count);
      kernels.run(lane, op, tag);
    } else {
      Momentum op = filled(Momentum{});
      op.formula = formula_of(kind_, nesterov_);
      kernels.run(lane, op, tag);
    }
  }
}

}  // namespace strata
