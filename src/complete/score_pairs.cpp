// Answers are scored in the order of the file, two for each pair. Where answers end is listed
// first, so that memory is taken for the longest.

#include "strata/complete/score_pairs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>

#include "strata/base/error.h"
#include "strata/complete/scored_windows.h"
#include "strata/complete/scorer.h"
#include "strata/data/batch.h"

namespace strata {

namespace {

/// Hands out answers as sequences, and takes what they come to.
class OpenAnswers {
 public:
  OpenAnswers(const TokenSource& tokens, std::int64_t vocabulary, const PairList& list)
      : tokens_(tokens), vocabulary_(vocabulary), list_(list), scored_(list.pairs.size()) {}

  /// Returns the next answer, or nothing after the last one.
  std::optional<ScoreRequest> next() {
    if (taken_ == 2 * list_.pairs.size()) return std::nullopt;
    const Answer answer = at(taken_++);
    const std::vector<std::uint8_t> loss = loss_of(answer);
    const auto first = std::find(loss.begin() + 1, loss.end(), 1);
    // Of an answer without loss one token is scored, and does not count.
    const std::size_t from = static_cast<std::size_t>(first - loss.begin());
    return ScoreRequest{
        .ids = read_model_ids(tokens_, vocabulary_, answer.begin, answer.end - answer.begin),
        .from = std::min(from, loss.size() - 1)};
  }
  /// Takes the scores of the answer with that number, which end with its last token.
  void add(std::size_t number, std::span<const double> logprobs) {
    const std::vector<std::uint8_t> loss = loss_of(at(number));
    const auto counts = std::span(loss).last(logprobs.size());
    double sum = 0;
    for (std::size_t i = 0; i < logprobs.size(); ++i) sum += counts[i] != 0 ? logprobs[i] : 0;
    if (!std::isfinite(sum)) {
      throw NumericalError(tokens_.name() + ": the log-probability of an answer of the pair that " +
                           "begins with token " + std::to_string(list_.pairs[number / 2].begin) +
                           " is not finite; are the weights damaged?");
    }
    StoredPair& pair = scored_[number / 2];
    pair.place = list_.pairs[number / 2];
    (number % 2 == 0 ? pair.logs.chosen : pair.logs.rejected) = sum;
  }
  std::vector<StoredPair> take() { return std::move(scored_); }

 private:
  struct Answer {
    std::int64_t begin;
    std::int64_t end;
  };
  [[nodiscard]] Answer at(std::size_t number) const {
    const PairPlace& pair = list_.pairs[number / 2];
    return number % 2 == 0 ? Answer{pair.begin, pair.middle} : Answer{pair.middle, pair.end};
  }
  [[nodiscard]] std::vector<std::uint8_t> loss_of(const Answer& answer) const {
    return read_loss(tokens_, answer.begin, answer.end - answer.begin);
  }

  const TokenSource& tokens_;
  std::int64_t vocabulary_;
  const PairList& list_;
  std::vector<StoredPair> scored_;
  std::size_t taken_ = 0;
};

}  // namespace

PairList list_pairs(const TokenSource& tokens, std::int64_t most_tokens) {
  constexpr std::int64_t kAtOnce = std::int64_t{1} << 22;  // tokens
  PairList list;
  PairPlace place;
  std::vector<std::int64_t> ends;
  for (std::int64_t asked = 0; asked < tokens.size(); asked += kAtOnce) {
    ends.clear();
    tokens.document_ends_in(asked, std::min(asked + kAtOnce, tokens.size()), ends);
    for (const std::int64_t end : ends) {
      if (place.middle == 0) {
        place.middle = end;
        continue;
      }
      place.end = end;
      const std::int64_t chosen = place.middle - place.begin;
      const std::int64_t rejected = end - place.middle;
      if (std::min(chosen, rejected) < kFewestPairTokens / 2) {
        throw IoError(tokens.name() + ": a pair of answers that begins with token " +
                      std::to_string(place.begin) +
                      " has an answer without a target. Tokenize it again");
      }
      if (std::max(chosen, rejected) > most_tokens) {
        ++list.left_out;
      } else {
        list.longest = std::max({list.longest, chosen, rejected});
        list.pairs.push_back(place);
      }
      place = {.begin = end};
    }
  }
  if (place.middle != 0) {
    throw IoError(tokens.name() +
                  ": ends with a chosen answer without a rejected one. Tokenize it again");
  }
  if (list.pairs.empty()) {
    throw IoError(tokens.name() + ": has no pair with answers of at most " +
                  std::to_string(most_tokens) + " tokens; raise --context, or take a model with " +
                  "more positions");
  }
  return list;
}

std::vector<StoredPair> score_pairs(SweepEngine& engine, const TokenSource& tokens,
                                    std::int64_t vocabulary, const PairList& list,
                                    const std::function<void(std::int64_t more)>& answers_scored) {
  OpenAnswers answers(tokens, vocabulary, list);
  Scorer(engine).run(
      [&] {
        answers_scored(0);
        return answers.next();
      },
      [&](std::size_t number, std::span<const double> logprobs) {
        answers.add(number, logprobs);
        answers_scored(1);
      });
  return answers.take();
}

}  // namespace strata
