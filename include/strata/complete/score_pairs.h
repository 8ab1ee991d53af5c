// Scores the pairs of answers of a token file, one sequence for each answer with its prompt:
// `evaluate --reference` calls it, and training compares with what comes of it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "strata/data/pair_reference.h"
#include "strata/engine/sweep_engine.h"

namespace strata {

/// The pairs of a token file that are to be scored.
struct PairList {
  std::vector<PairPlace> pairs{};
  std::int64_t left_out = 0;  ///< pairs with an answer that is too long
  std::int64_t longest = 1;   ///< tokens of an answer
};

/// Lists the pairs of a source of which no answer has more than `most_tokens` tokens. Throws
/// IoError if there is none.
[[nodiscard]] PairList list_pairs(const TokenSource& tokens, std::int64_t most_tokens);

/// Returns the log-probabilities of all listed answers, summed in f64 over the tokens whose loss
/// counts. The engine was planned for scores of list.longest tokens; `answers_scored` is told how
/// many more answers were scored, 0 or more. Throws ConfigError for an id that is none of the
/// model's, NumericalError that names the pair for a sum that is not finite, what the callback
/// throws, and as Scorer::run does.
[[nodiscard]] std::vector<StoredPair> score_pairs(
    SweepEngine& engine, const TokenSource& tokens, std::int64_t vocabulary, const PairList& list,
    const std::function<void(std::int64_t more)>& answers_scored);

}  // namespace strata
