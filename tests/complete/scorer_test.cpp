// Tests that tokens that are there get the probabilities that they had when they were drawn, and
// that these depend on the sequence alone.
#include "strata/complete/scorer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "complete/generation_layouts.h"
#include "strata/base/error.h"
#include "support/catch.h"
#include "support/tiny_generation.h"

namespace strata::test {
namespace {

/// Sequences of 1 to 40 tokens, scored from the second or from somewhere else.
std::vector<ScoreRequest> mixed_score_requests() {
  std::vector<ScoreRequest> requests;
  for (std::uint64_t i = 0; i < 14; ++i) {
    const std::int64_t length = i == 13 ? 40 : 1 + static_cast<std::int64_t>(7 * i % 24);
    ScoreRequest request{.ids = random_prompt(i, length)};
    if (i % 3 == 1) request.from = static_cast<std::size_t>((length + 1) / 2);
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace

TEST_CASE("tokens are scored with the probabilities with which they were drawn") {
  for (const DType dtype : {DType::kF64, DType::kBF16}) {
    TinyGeneration generation({.model = long_model(), .needs = scoring(needs(dtype))});
    GenerateRequest request{
        .prompt = random_prompt(3, 9), .sampling = {}, .most_tokens = 25, .sample = 0};
    request.sampling.temperature = 1;
    const Continuation drawn = generation.run({request}).front();
    ScoreRequest all{.ids = request.prompt, .from = 9};
    all.ids.insert(all.ids.end(), drawn.ids.begin(), drawn.ids.end());
    // Losses are in the precision of training's, those of drawn tokens in f64.
    const double tolerance = dtype == DType::kF64 ? 1e-13 : 1e-6;
    const std::vector<double> scored = score(generation, {all}).front();
    REQUIRE(scored.size() == drawn.logprobs.size());
    for (std::size_t i = 0; i < scored.size(); ++i) {
      CHECK(std::abs(scored[i] - drawn.logprobs[i]) <= tolerance);
    }
    // The probabilities of everything that may come last are one in all.
    std::vector<ScoreRequest> every;
    for (std::int32_t id = 0; id < long_model().vocab_size; ++id) {
      every.push_back({.ids = request.prompt, .from = 9});
      every.back().ids.push_back(id);
    }
    double sum = 0;
    for (const auto& logprobs : score(generation, every)) {
      REQUIRE(logprobs.size() == 1);
      sum += std::exp(logprobs[0]);
    }
    CHECK(sum == Approx(1).epsilon(dtype == DType::kF64 ? 1e-12 : 1e-5));
  }
}

TEST_CASE("a sequence has the same scores alone and in any batch, wherever things live") {
  const std::vector<ScoreRequest> requests = mixed_score_requests();
  const auto scoring_with = [](GenerationNeeds needs, Products products) {
    needs = scoring(needs);
    needs.products = products;
    return needs;
  };
  for (const auto& [dtype, products] :
       {std::pair(DType::kF32, Products::kPlain), std::pair(DType::kBF16, Products::kPlain),
        std::pair(DType::kBF16, Products::kFp8)}) {
    Logprobs alone;
    for (const ScoreRequest& request : requests) {
      GenerationNeeds one = scoring_with(needs(dtype), products);
      one.sequences = 1;
      TinyGeneration generation({.model = long_model(), .needs = one});
      alone.push_back(score(generation, {request}).front());
      const std::size_t from = std::min(request.from, request.ids.size());
      REQUIRE(alone.back().size() == request.ids.size() - from);
    }
    for (const GenerationNeeds& layout : layouts(dtype)) {
      for (const Execution execution : {Execution::kThreads, Execution::kShuffled}) {
        TinyGeneration generation({.model = long_model(),
                                   .needs = scoring_with(layout, products),
                                   .execution = execution});
        INFO(generation.setup().to_string());
        CHECK(score(generation, requests) == alone);
      }
    }
  }
}

TEST_CASE("weights that are no numbers score nothing") {
  TinyGeneration generation({.model = long_model(),
                             .needs = scoring(needs(DType::kF32)),
                             .fill = [](TrainingState& state, ThreadPool& pool) {
                               state.initialize(3, std::nan(""), pool);
                             }});
  CHECK_THROWS_AS(score(generation, mixed_score_requests()), NumericalError);
}

}  // namespace strata::test
