// Generation compared with transformers: logits and tokens of tiny models that are continued
// greedily, and what is left of a distribution by its processors and warpers.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "golden/golden_file.h"
#include "golden/golden_model.h"
#include "strata/base/convert.h"
#include "strata/complete/scorer.h"
#include "strata/op_checks/op_runner.h"
#include "support/catch.h"
#include "support/tiny_generation.h"

namespace strata::test {
namespace {

/// So that layers with a window release keys many times in a text.
constexpr std::int64_t kWindowStep = 16;

std::function<void(TrainingState&, ThreadPool&)> weights_of(const std::filesystem::path& folder) {
  return [folder](TrainingState& state, ThreadPool& pool) {
    state.load(SafetensorsDirectory(folder), pool);
  };
}

struct Scores {
  std::vector<double> scored;
  std::vector<double> expected;  ///< by transformers
};

/// Returns the logarithms of probabilities of the tokens of a golden model's text, of one size.
Scores scored_and_expected(const char* model, KvDType kv_dtype) {
  const std::filesystem::path folder = golden_data() / model;
  const GoldenFile golden(folder / "evaluation.safetensors");
  const std::vector<std::int32_t> ids = golden.integers("ids");
  TinyGeneration generation({.model = load_llama_config(folder / "config.json"),
                             .needs = {.compute = DType::kF32,
                                       .kv_dtype = kv_dtype,
                                       .sequences = 1,
                                       .context = std::ssize(ids),
                                       .cell_tokens = 50,
                                       .sweep_tokens = 120,
                                       .scores = true,
                                       .window_step = kWindowStep},
                             .fill = weights_of(folder)});
  bool taken = false;
  Scores all{.scored = {}, .expected = golden.values("whole")};
  Scorer scorer(generation.engine());
  scorer.run(
      [&]() -> std::optional<ScoreRequest> {
        if (std::exchange(taken, true)) return std::nullopt;
        return ScoreRequest{.ids = ids};
      },
      [&](std::size_t, std::span<const double> logprobs) {
        all.scored.assign(logprobs.begin(), logprobs.end());
      });
  REQUIRE(all.scored.size() == all.expected.size());
  return all;
}

}  // namespace

TEST_CASE("models continue prompts as transformers does", "[golden]") {
  constexpr std::size_t kStride = 32;  // of the tokens after which logits are compared
  constexpr int kPrompts = 3;
  for (const char* name : kGoldenModels) {
    const std::filesystem::path folder = golden_data() / name;
    const GoldenFile golden(folder / "generation.safetensors");
    std::vector<GenerateRequest> requests;
    for (int i = 0; i < kPrompts; ++i) {
      requests.push_back({.prompt = golden.integers("prompt." + std::to_string(i)),
                          .sampling = {.temperature = 0},
                          .most_tokens = 256,
                          .sample = 0});
    }
    for (const bool alone : {false, true}) {
      INFO(name << (alone ? " alone" : " together"));
      GenerationNeeds needs{.compute = DType::kF32,
                            .sequences = kPrompts,
                            .context = 406,
                            .window_step = kWindowStep};
      if (alone) needs.sequences = 1;
      TinyGeneration generation({.model = load_llama_config(folder / "config.json"),
                                 .needs = needs,
                                 .fill = weights_of(folder)});
      const auto vocabulary = static_cast<std::size_t>(generation.setup().spec.vocabulary);
      std::array<std::vector<double>, kPrompts> logits;
      std::array<std::size_t, kPrompts> drawn{};
      const auto all = generation.run(requests, [&](const DrawnToken& token) {
        if (drawn.at(token.sequence)++ % kStride != 0) return true;
        const std::size_t row = alone ? 0 : token.sequence;
        const std::vector<double> rows = generation.last_logits(static_cast<std::int64_t>(row) + 1);
        logits.at(token.sequence)
            .insert(logits[token.sequence].end(), rows.end() - static_cast<long>(vocabulary),
                    rows.end());
        return true;
      });
      for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(all[i].ids == golden.integers("tokens." + std::to_string(i)));
        const std::vector<double> expected = golden.values("logits." + std::to_string(i));
        REQUIRE(logits.at(i).size() == expected.size());
        double largest = 0;
        double error = 0;
        for (std::size_t j = 0; j < expected.size(); ++j) {
          largest = std::max(largest, std::abs(expected[j]));
          error = std::max(error, std::abs(expected[j] - logits.at(i)[j]));
        }
        CHECK(error <= 2e-5 * largest);
      }
    }
  }
}

TEST_CASE("tokens are as likely as transformers finds them", "[golden]") {
  for (const char* name : kGoldenModels) {
    INFO(name);
    const auto [scored, expected] = scored_and_expected(name, KvDType::kAuto);
    const double largest = -*std::ranges::min_element(expected);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(std::abs(scored[i] - expected[i]) <= 2e-5 * largest);
    }
  }
}

TEST_CASE("with int8 keys logits stay near those of transformers", "[golden]") {
  constexpr std::size_t kStride = 32;  // of the tokens after which there are logits
  for (const char* name : kGoldenModels) {
    INFO(name);
    const std::filesystem::path folder = golden_data() / name;
    const GoldenFile golden(folder / "generation.safetensors");
    TinyGeneration generation({.model = load_llama_config(folder / "config.json"),
                               .needs = {.compute = DType::kF32,
                                         .kv_dtype = KvDType::kInt8,
                                         .sequences = 1,
                                         .context = 406,
                                         .window_step = kWindowStep},
                               .fill = weights_of(folder)});
    const auto vocabulary = static_cast<std::size_t>(generation.setup().spec.vocabulary);
    std::vector<GenerateRequest> requests;
    for (int i = 0; i < 3; ++i) {
      requests.push_back({.prompt = golden.integers("prompt." + std::to_string(i)),
                          .sampling = {.temperature = 0},
                          .most_tokens = 256,
                          .sample = 0});
    }
    std::array<std::size_t, 3> drawn{};
    std::array<std::vector<std::int32_t>, 3> tokens;
    std::array<std::vector<double>, 3> logits;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = golden.integers("tokens." + std::to_string(i));
      logits[i] = golden.values("logits." + std::to_string(i));
    }
    double error = 0, size = 0;
    int compared = 0;
    // As long as the tokens before are the same: then the logits are of the same text.
    (void)generation.run(requests, [&](const DrawnToken& token) {
      const std::size_t at = drawn.at(token.sequence)++;
      if (at % kStride == 0) {
        const std::vector<double> got = generation.last_logits(1);
        for (std::size_t j = 0; j < vocabulary; ++j) {
          const double want = logits[token.sequence].at(at / kStride * vocabulary + j);
          error += (got[j] - want) * (got[j] - want);
          size += want * want;
        }
        ++compared;
      }
      return token.id == tokens[token.sequence].at(at);
    });
    CHECK(compared > 6);                    // far beyond the first token of each
    CHECK(std::sqrt(error / size) < 0.01);  // keys and values are off by about 0.006 of themselves
    CHECK(error > 0);
  }
}

TEST_CASE("int8 keys make tokens hardly less likely than transformers finds them", "[golden]") {
  for (const char* name : kGoldenModels) {
    INFO(name);
    const auto [scored, expected] = scored_and_expected(name, KvDType::kInt8);
    double sum = 0, most = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      sum += scored[i] - expected[i];
      most = std::max(most, std::abs(scored[i] - expected[i]));
    }
    CHECK(std::abs(sum) / static_cast<double>(expected.size()) < 1e-3);  // nats
    CHECK(most < 0.05);
    CHECK(most > 0);
  }
}

TEST_CASE("what is left of logits is what transformers leaves", "[golden]") {
  const GoldenFile golden(golden_data() / "sampling.safetensors");
  const auto cases = golden.shape("logits")[0];
  const auto vocabulary = static_cast<std::size_t>(golden.shape("logits")[1]);
  const auto seen_count = golden.shape("seen")[1];
  const std::vector<double> logits = golden.values("logits");
  const std::vector<double> settings = golden.values("settings");
  const std::vector<double> probabilities = golden.values("probabilities");
  Backend backend = make_backend(BackendKind::kCpu, {.device = {}, .threads = 2});
  OpRunner runner(backend);
  for (std::int64_t n = 0; n < cases; ++n) {
    INFO("case " << n);
    const double* const how = &settings[static_cast<std::size_t>(5 * n)];
    const auto at = static_cast<std::ptrdiff_t>(n) * static_cast<std::ptrdiff_t>(vocabulary);
    const std::vector<double> own(probabilities.begin() + at,
                                  probabilities.begin() + at + static_cast<long>(vocabulary));
    // One draw in the middle of the share of each token that has one.
    std::vector<SamplingRow> rows;
    std::vector<double> expected;
    std::vector<double> repeated;
    double before = 0;
    for (std::size_t token = 0; token < vocabulary; ++token) {
      if (own[token] == 0) continue;
      rows.push_back({.temperature = how[1],
                      .top_p = how[3],
                      .min_p = how[4],
                      .repeat_penalty = how[0],
                      .uniform = before + own[token] / 2,
                      .top_k = static_cast<std::int32_t>(how[2]),
                      .seen_begin = static_cast<std::int32_t>(seen_count * n),
                      .seen_count = static_cast<std::int32_t>(seen_count)});
      expected.push_back(static_cast<double>(token));
      repeated.insert(repeated.end(), logits.begin() + at,
                      logits.begin() + at + static_cast<long>(vocabulary));
      before += own[token];
    }
    REQUIRE(before == Approx(1).epsilon(1e-12));
    runner.reset();
    const std::int64_t count = std::ssize(rows);
    const std::vector<double> seen = golden.values("seen");
    const SampleTokens op{
        .logits =
            runner.upload(repeated, DType::kF64, {count, static_cast<std::int64_t>(vocabulary)}),
        .rows = {runner.upload_bytes(rows.data(), rows.size() * sizeof(SamplingRow)), DType::kU8,
                 Shape{count, static_cast<std::int64_t>(sizeof(SamplingRow))}},
        .seen = runner.upload(seen, DType::kI32, {std::ssize(seen)}),
        .token = runner.output(DType::kI32, {count}),
        .logprob = runner.output(DType::kF64, {count})};
    runner.run(op);
    CHECK(runner.download(op.token) == expected);
  }
}

}  // namespace strata::test
