// This file writes AdamW with moments in 8 bits (strata/ops/moment_codes.h has the format), block
// by block. All variants give the same bits.

#pragma once

#include "kernels/cpu/simd/adamw_block.h"
#include "kernels/cpu/simd/adamw_wide_block.h"

namespace strata::cpu {
namespace {

/// Updates `count` parameters, the first of which begins a block.
template <class W, class L, class G>
bool update_coded(const CodedBlock<W, L, G> all, std::uint8_t* scales, std::int64_t count,
                  const AdamWFactors<float> f, Rounding rounding, Rounding weight_rounding) {
  bool finite = true;
  std::int64_t begin = 0;
  while (begin < count) {
    const CodedBlock<W, L, G> rest = all.after(begin);
    std::uint8_t* const of_rest = scales + kMomentScales * (begin / kMomentBlock);
    const Rounding here{rounding.key, rounding.begin + begin};
    const Rounding of_weights{weight_rounding.key, weight_rounding.begin + begin};
    const std::int64_t wide = update_wide_blocks(rest, of_rest, count - begin, f, here, of_weights);
    begin += wide;
    if (wide > 0) continue;
    fetch_ahead(0, rest.weight, rest.m, rest.v, rest.grad);
    if (rest.low != nullptr) fetch_ahead(0, rest.low);
    const bool whole = begin + kMomentBlock <= count;
    // The compiler makes another loop of the one whose length it knows.
    const bool good = whole ? update_block(rest, of_rest, kMomentBlock, f, here, of_weights)
                            : update_block(rest, of_rest, count - begin, f, here, of_weights);
    finite = finite && good;
    begin += kMomentBlock;
  }
  return finite;
}

/// Updates weights that accumulate in f32 and have moments in 8 bits.
template <class G>
bool adamw_with_codes(const AdamWRange& r, const G* grad) {
  const std::int64_t count = r.end - r.begin;
  std::uint8_t* m = static_cast<std::uint8_t*>(r.m) + r.begin;
  std::uint8_t* v = static_cast<std::uint8_t*>(r.v) + r.begin;
  std::uint8_t* scales = r.scale + kMomentScales * (r.begin / kMomentBlock);
  const Rounding rounding{r.rounding_key, r.rounding_begin};
  const Rounding of_weights{r.weight_key, r.rounding_begin};
  if (r.weight_dtype == DType::kF32) {
    const CodedBlock<float, std::int16_t, G> all{static_cast<float*>(r.weight) + r.begin, nullptr,
                                                 m, v, grad};
    return update_coded(all, scales, count, r.f32, rounding, of_weights);
  }
  if (r.low == nullptr) {
    const CodedBlock<Bf16, NoLow, G> all{static_cast<Bf16*>(r.weight) + r.begin, nullptr, m, v,
                                         grad};
    return update_coded(all, scales, count, r.f32, rounding, of_weights);
  }
  const CodedBlock<Bf16, std::int16_t, G> all{static_cast<Bf16*>(r.weight) + r.begin,
                                              r.low + r.begin, m, v, grad};
  return update_coded(all, scales, count, r.f32, rounding, of_weights);
}

}  // namespace
}  // namespace strata::cpu
