// Vocabularies that list tokens with ranks or scores, but no merges: there any two neighbours merge
// whose joint text is a token, and the rank of the merge is that of the token.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/bpe.h"

namespace strata {

/// Returns every way to put a token together of two others. Texts and ranks are by id; an empty
/// text takes no part.
[[nodiscard]] std::vector<BpeMerge> ranked_merges(const std::vector<std::string>& tokens,
                                                  std::span<const std::uint32_t> ranks);

}  // namespace strata
