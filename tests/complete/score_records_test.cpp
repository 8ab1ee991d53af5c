// Tests that records and windows come to the sums of what the scorer says of their tokens.

#include "strata/complete/score_records.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "complete/generation_layouts.h"
#include "strata/base/error.h"
#include "strata/complete/score_windows.h"
#include "support/catch.h"
#include "support/scratch_folder.h"
#include "support/tiny_generation.h"

namespace strata::test {
namespace {

constexpr std::int64_t kMostTokens = 40;

/// A model of bytes that scores.
class ByteScorer {
 public:
  [[nodiscard]] const ModelText& text() const { return text_; }
  [[nodiscard]] SweepEngine& engine() { return generation_.engine(); }
  /// Returns the probability of `text` after `prompt`, which has a token.
  [[nodiscard]] double loglikelihood(const std::string& prompt, const std::string& text) {
    const ScoreRequest request{.ids = text_.encode(prompt + text, false), .from = prompt.size()};
    const std::vector<double> logprobs = score(generation_, {request}).front();
    return std::accumulate(logprobs.begin(), logprobs.end(), 0.0);
  }

 private:
  static LlamaConfig model() {
    LlamaConfig config = long_model();
    config.vocab_size = 257;
    return config;
  }
  ModelText text_{{.folder = "", .vocabulary = 257}};
  TinyGeneration generation_{{.model = model(), .needs = scoring(needs(DType::kF32))}};
};

std::vector<RecordScore> scores_of(ByteScorer& scorer, const RecordReading& how,
                                   InputLines& lines) {
  std::vector<RecordScore> scores;
  std::int64_t texts = 0;
  score_records(
      scorer.engine(), how, lines, [&](const RecordScore& s) { scores.push_back(s); },
      [&](std::int64_t more) { texts += more; });
  lines.rewind();
  CHECK(texts == survey_records(how, lines).texts);
  return scores;
}

}  // namespace

TEST_CASE("records come to the likelihoods of their texts, in their order") {
  ByteScorer scorer;
  const ScratchFolder folder;
  InputLines lines(folder.write("in.jsonl", R"({"prompt": "one and ", "completion": "two"}
      {"id": "q", "prompt": "is it ", "choices": ["yes", "no, it is not", "so"], "answer": 1}
      {"text": "words"}
      {"choices": ["a", "bb"], "prompt": "x"})"),
                   true);
  const RecordReading how{.text = scorer.text(), .most_tokens = kMostTokens};
  const RecordSurvey survey = survey_records(how, lines);
  CHECK(survey.records == 4);
  CHECK(survey.texts == 1 + 3 + 1 + 2);
  CHECK(survey.longest == 19);
  CHECK(survey.truncated == 0);
  const std::vector<RecordScore> scores = scores_of(scorer, how, lines);
  REQUIRE(scores.size() == 4);
  CHECK(scores[0].id == "1");
  CHECK(scores[0].loglikelihood == Approx(scorer.loglikelihood("one and ", "two")));
  CHECK(scores[0].tokens == 3);
  CHECK(scores[0].bytes == 3);
  CHECK(scores[2].loglikelihood == Approx(scorer.loglikelihood("w", "ords")));
  CHECK(scores[2].bytes == 4);
  const ChoiceScores& choices = scores[1].choices.value();
  std::vector<double> by_byte;
  for (const std::string_view choice : {"yes", "no, it is not", "so"}) {
    const double likelihood = scorer.loglikelihood("is it ", std::string(choice));
    CHECK(choices.loglikelihoods.at(by_byte.size()) == Approx(likelihood));
    by_byte.push_back(likelihood / static_cast<double>(choice.size()));
  }
  CHECK(choices.choice ==
        static_cast<std::size_t>(std::ranges::max_element(choices.loglikelihoods) -
                                 choices.loglikelihoods.begin()));
  CHECK(choices.choice_by_byte ==
        static_cast<std::size_t>(std::ranges::max_element(by_byte) - by_byte.begin()));
  CHECK(choices.answer == 1);
  CHECK(!scores[3].choices.value().answer);
}

TEST_CASE("totals have the texts of records without choices, and choices with an answer") {
  RecordTotals totals;
  totals.add({.id = "1", .loglikelihood = -3, .tokens = 2, .bytes = 5});
  totals.add({.id = "2", .loglikelihood = -1, .tokens = 1, .bytes = 2});
  totals.add({.id = "3",
              .choices = ChoiceScores{
                  .loglikelihoods = {-1, -2}, .choice = 0, .choice_by_byte = 1, .answer = 1}});
  totals.add({.id = "4",
              .choices = ChoiceScores{
                  .loglikelihoods = {-1, -2}, .choice = 0, .choice_by_byte = 1, .answer = {}}});
  CHECK(totals.texts == 2);
  CHECK(totals.tokens == 3);
  CHECK(totals.bytes == 7);
  CHECK(totals.nats == 4);
  CHECK(totals.right == std::vector<bool>{false});
  CHECK(totals.right_by_byte == std::vector<bool>{true});
}

TEST_CASE("a record that is too long is refused, or loses tokens on its left") {
  ByteScorer scorer;
  const ScratchFolder folder;
  const std::string prompt(50, 'p');
  InputLines lines(
      folder.write("in.jsonl", R"({"completion": "end", "prompt": ")" + prompt + "\"}"), true);
  RecordReading how{.text = scorer.text(), .most_tokens = kMostTokens};
  CHECK_THROWS_WITH(survey_records(how, lines),
                    ContainsSubstring("in.jsonl:1: has 53 tokens, and a sequence may have 40"));
  lines.rewind();
  how.truncate = true;
  const RecordSurvey survey = survey_records(how, lines);
  CHECK(survey.truncated == 1);
  CHECK(survey.longest == kMostTokens);
  const std::vector<RecordScore> scores = scores_of(scorer, how, lines);
  CHECK(scores.at(0).loglikelihood == Approx(scorer.loglikelihood(prompt.substr(13), "end")));
  InputLines none(folder.write("none.jsonl", "\n\n"), true);
  CHECK_THROWS_WITH(survey_records(how, none), ContainsSubstring("has no record"));
}

TEST_CASE("a text in windows has the loss of its tokens, each after those of its window") {
  ByteScorer scorer;
  const std::string said = "a text of some words that is cut into windows of tokens";
  const TextTokens tokens("said", scorer.text().encode(said, false));
  const auto size = static_cast<std::int64_t>(said.size());
  const OverlappingWindows::Cut cut{.context = 20, .stride = 15};
  OverlappingWindows reader(tokens, 257, cut);
  std::int64_t begun = 0;
  const WindowScores scores = score_windows(
      scorer.engine(),
      {.tokens = tokens, .text = scorer.text(), .reader = reader, .text_bytes = said.size()},
      [&](std::int64_t more) { begun += more; });
  double nats = 0;
  std::int64_t scored_to = 1;
  for (std::int64_t i = 0; i < reader.count(); ++i) {
    const std::int64_t begin = std::min(i * cut.stride, size - cut.context);
    const auto first = static_cast<std::size_t>(begin);
    const auto before = static_cast<std::size_t>(scored_to - begin);
    const auto rest = static_cast<std::size_t>(begin + cut.context - scored_to);
    nats -= scorer.loglikelihood(said.substr(first, before), said.substr(first + before, rest));
    scored_to = begin + cut.context;
  }
  CHECK(begun == reader.count());
  CHECK(scores.tokens == size - 1);
  CHECK(scores.loss.value == Approx(nats / static_cast<double>(size - 1)));
  CHECK(scores.bytes == said.size() - 1);
  CHECK(scores.bits_per_byte.value() ==
        Approx(nats / std::numbers::ln2 / static_cast<double>(size - 1)));
  OverlappingWindows again(tokens, 257, cut);
  const WindowScores counted =
      score_windows(scorer.engine(), {.tokens = tokens, .text = scorer.text(), .reader = again},
                    [](std::int64_t) {});
  CHECK(counted.bytes == scores.bytes);
  CHECK(counted.loss.value == scores.loss.value);
}

}  // namespace strata::test
