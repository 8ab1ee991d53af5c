// Reads blocks of a Hugging Face folder, with adapters added if there are any. Tensors lie anywhere
// in its files: each slice is looked up by its name. Imports and exports to GGUF share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "strata/base/narrow.h"
#include "strata/model/layout.h"
#include "strata/model/merged_weights.h"
#include "strata/model/weights_check.h"

namespace strata {

/// Fills `out` with elements of a block from `begin` on, none of which are in its gaps.
template <class T>
void read_block(const MergedWeights& weights, const Block& block, std::int64_t begin,
                std::span<std::byte> out) {
  constexpr std::int64_t kAnyLength = std::numeric_limits<std::int64_t>::max();
  const std::span to(reinterpret_cast<T*>(out.data()), out.size() / sizeof(T));
  const std::int64_t end = begin + narrow<std::int64_t>(to.size());
  for (const SourceRun& run : source_runs(block, begin, end, kAnyLength)) {
    const std::span<T> part = to.subspan(static_cast<std::size_t>(run.block_begin - begin),
                                         static_cast<std::size_t>(run.count));
    weights.read(run.source->name, run.source_begin, part);
    require_finite(run.source->name, run.source_begin, std::span<const T>(part));
  }
}

}  // namespace strata
