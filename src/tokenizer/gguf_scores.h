// Scores of tokens for llama.cpp, which merges as SentencePiece does: of all neighbours whose joint
// text is a token, those of the highest score, the leftmost first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_parts.h"

namespace strata {

/// The score of tokens that no merge makes.
inline constexpr float kScoreOfOthers = -1e6F;

struct ScoredTokens {
  std::vector<float> scores;  ///< by id, for all that the tokenizer has
  std::string problem;        ///< why no scores lead to the same ids; empty: they do
};

/// Returns scores with which merging by score is what the tokenizer's merges do. `splits` tells
/// whether texts are cut before each U+2581.
[[nodiscard]] ScoredTokens scores_of_merges(const TokenizerParts& parts, bool splits);

/// Tells whether a token is "<0x00>" to "<0xFF>".
[[nodiscard]] bool is_byte_token(std::string_view text);

}  // namespace strata
