// Tests that golden models are consistent with themselves and with strata's rotary tables, segments
// and orders, before training is compared with them.

#include "golden/golden_model.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "golden/golden_file.h"
#include "strata/model/families.h"
#include "strata/model/rope_table.h"
#include "support/catch.h"

namespace strata::test {
namespace {

TEST_CASE("the rope tables of the golden models turn at PyTorch's frequencies") {
  for (const std::string name : kGoldenModels) {
    INFO(name);
    const GoldenModel model = load_golden_model(name);
    const RopeTable table = make_rope_table(
        spec_of(load_llama_config(model.folder / "config.json")).common().attention.rope, 20,
        model.tokens);
    const double magnitude = table.cos.front();  // of position 0
    std::vector<double> cos, sin;
    for (int position = 0; position < 20; ++position) {
      for (const double frequency : model.inverse_frequencies) {
        cos.push_back(magnitude * std::cos(position * frequency));
        sin.push_back(magnitude * std::sin(position * frequency));
      }
    }
    CHECK(distance(table.cos, cos) < 1e-13);
    CHECK(distance(table.sin, sin) < 1e-13);
  }
}

TEST_CASE("the golden losses are the means over the valid targets") {
  for (const std::string name : kGoldenModels) {
    INFO(name);
    const GoldenModel model = load_golden_model(name);
    REQUIRE(model.token_losses.size() == static_cast<std::size_t>(model.rows * model.tokens));
    const auto& targets = model.steps.at(0).targets;
    double sum = 0;
    for (const double loss : model.token_losses) sum += loss;
    const auto ignored = std::ranges::count(targets, kIgnoreTarget);
    CHECK(std::abs(sum / static_cast<double>(model.rows * model.tokens - ignored) -
                   model.losses.at(0)) < 1e-12);
    CHECK(model.gradients.size() == model.initial.size());
    CHECK(model.final.size() == model.initial.size());
  }
}

/// The i32 buffers of one pass.
struct Pass {
  std::vector<std::int32_t> ids, targets, positions, segments, order;
  Pass(const BatchShape& shape, std::int64_t entries)
      : ids(static_cast<std::size_t>(shape.pass_tokens())),
        targets(ids.size()),
        positions(ids.size()),
        segments(static_cast<std::size_t>(shape.sub_batches * entries * kSegmentColumns)),
        order(ids.size()) {}
  PassBuffers buffers() { return {ids, targets, positions, segments, order}; }
};

TEST_CASE("golden rows are spread over sub-batches and ranks like a loader's") {
  const GoldenModel model = load_golden_model("packed");
  const auto length = static_cast<std::size_t>(model.tokens);
  const BatchShape shape{.rows = 1, .tokens = model.tokens, .sub_batches = 3};
  Pass pass(shape, model.tokens);
  const std::int64_t valid =
      fill_golden_pass(model, 1, 0, {.shape = shape, .rank = 1, .ranks = 2}, pass.buffers());
  const GoldenBatch& batch = model.steps[1];
  std::int64_t expected_valid = 0;
  for (std::size_t s = 0; s < 3; ++s) {
    const std::size_t row = 2 * s + 1;  // sub-batch s of rank 1 of 2
    for (std::size_t t = 0; t < length; ++t) {
      CHECK(pass.ids[s * length + t] == batch.tokens[row * length + t]);
      CHECK(pass.targets[s * length + t] == batch.targets[row * length + t]);
      CHECK(pass.positions[s * length + t] == batch.positions[row * length + t]);
      expected_valid += batch.targets[row * length + t] != kIgnoreTarget ? 1 : 0;
    }
  }
  CHECK(valid == expected_valid);
}

TEST_CASE("golden documents become segments, and tokens are ordered by id") {
  const GoldenModel model = load_golden_model("packed");
  const BatchShape shape{.rows = 2, .tokens = model.tokens, .sub_batches = 3};
  Pass pass(shape, 2 * model.tokens);
  fill_golden_pass(model, 0, 0, {.shape = shape}, pass.buffers());
  const auto tokens = static_cast<std::size_t>(shape.sub_batch_tokens());
  for (std::size_t s = 0; s < 3; ++s) {
    std::vector<int> covered(tokens);
    for (std::size_t entry = 0; entry < tokens; ++entry) {
      const std::int32_t* segment = &pass.segments[(s * tokens + entry) * 5];
      CHECK(segment[1] == segment[0]);
      CHECK(segment[3] == segment[2]);
      CHECK(segment[4] == 0);
      for (std::int32_t i = 0; i < segment[2]; ++i) {
        const auto n = static_cast<std::size_t>(segment[0] + i);
        CHECK(pass.positions[s * tokens + n] == i);
        ++covered[n];
      }
    }
    CHECK(std::ranges::all_of(covered, [](int times) { return times == 1; }));
    for (std::size_t i = 1; i < tokens; ++i) {
      const std::int32_t a = pass.order[s * tokens + i - 1];
      const std::int32_t b = pass.order[s * tokens + i];
      const std::int32_t id_a = pass.ids[s * tokens + static_cast<std::size_t>(a)];
      const std::int32_t id_b = pass.ids[s * tokens + static_cast<std::size_t>(b)];
      CHECK((id_a < id_b || (id_a == id_b && a < b)));
    }
  }
}

}  // namespace
}  // namespace strata::test
