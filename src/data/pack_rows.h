// Which documents share a row: bin packing, without anything of files. PackedTokens asks it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace strata {

/// Returns the row of each document such that the lengths in no row sum to more than `row_tokens`:
/// best fit by decreasing length, equal lengths in their order, and of rows with equal room the
/// one that got it last. Rows are numbered by their first document. Lengths are in [1, row_tokens].
/// Takes O(n log n) time and about 16 bytes a document.
[[nodiscard]] std::vector<std::int64_t> pack_rows(std::span<const std::int32_t> lengths,
                                                  std::int32_t row_tokens);

}  // namespace strata
