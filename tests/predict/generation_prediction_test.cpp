// Tests predicted generation against arithmetic on machines of which one part alone is slow. What
// is chosen by it, tests/plan/choose_generation_test.cpp tests.

#include "strata/predict/generation_prediction.h"

#include <stdexcept>
#include <string>

#include "predict/paper_generation.h"
#include "predict/paper_machines.h"
#include "strata/base/bytes.h"
#include "support/catch.h"

namespace strata::test {
namespace {

/// Returns the bytes of all weights that a token goes through: of the embedding it reads a row.
double weight_bytes() {
  const LlamaConfig m = large_llama();
  return 2.0 * static_cast<double>(m.parameter_count() - m.vocab_size * m.hidden_size);
}

/// Returns the bytes of a key and a value of all layers.
double row_bytes() { return 4.0 * 2 * 8 * 128 * 2; }

/// Of the device's rate: products of one row and of few, and attention of single tokens, as
/// docs/prediction.md has them.
constexpr double kOneRow = 1.12;
constexpr double kFewRows = 1.16;
constexpr double kAttention = 1.11;

/// Returns what is predicted on a machine where all but what `slow` sets is instant.
template <class Slow>
GenerationPrediction predicted(const GenerationSetup& setup, const GenerationLoad& load,
                               const Slow& slow) {
  HardwareSection hardware = fast_machine().hardware;
  slow(hardware);
  GenerationPrediction p = predict_generation(setup, load, {kNewDevice, hardware});
  REQUIRE(p.unknown.empty());
  return p;
}

}  // namespace

TEST_CASE("one resident sequence takes the bytes of weights and keys at the device's rate") {
  constexpr double kGbs = 100;  // so slow that no start of a kernel counts
  const GenerationLoad load{.sequences = 1, .prompt_tokens = 1000, .drawn_tokens = 200};
  const GenerationPrediction p =
      predicted(within({}, 1, 1200), load, [&](HardwareSection& h) { h.device_gbs = kGbs; });
  CHECK(p.sweeps == 200);
  // The first sweep has the prompt; the others see 1001 to 1199 keys.
  const double bytes = weight_bytes() / kOneRow + 1100 * row_bytes() / kAttention;
  const double expected_s = bytes / (kGbs * 1e9);
  CHECK(p.draw_s == Approx(expected_s).epsilon(0.02));
  CHECK(p.seconds == Approx(200 * expected_s).epsilon(0.1));
  CHECK(p.tokens_per_s == Approx(200 / p.seconds).epsilon(1e-9));
  REQUIRE_FALSE(p.critical.empty());
  CHECK(p.critical.front().name == "compute");
}

TEST_CASE("prompts take the FLOPs of their products") {
  constexpr double kTflops = 1;
  const GenerationLoad load{.sequences = 8, .prompt_tokens = 1024, .drawn_tokens = 1};
  const GenerationPrediction p =
      predicted(within({}, 8, 1100), load, [&](HardwareSection& h) { h.product_tflops = kTflops; });
  const double head = 32000.0 * 4096;
  const double flops = 8 * 1024 * (weight_bytes() - 2 * head) + 8 * 2 * head;
  CHECK(p.seconds == Approx(flops / (kTflops * 1e12)).epsilon(0.02));
  CHECK(p.prompt_share == 1);
  CHECK(p.first_token_s < 0.6 * p.seconds);  // half of the prompts fit into a sweep
}

TEST_CASE("weights that are not resident take the link in every sweep") {
  constexpr double kGbs = 1;
  const GenerationSetup setup = within(1600 * kMiB, 4, 300);
  REQUIRE(setup.travelling_units() > 0);
  REQUIRE(setup.kv.slots == 0);
  double streamed = 0;
  for (const BlockId b : setup.model->blocks.ids()) {
    if (setup.state.blocks[b].weight == Home::kDevice) continue;
    if (b == BlockId(0)) continue;  // of the embedding some rows are read
    streamed += 2.0 * static_cast<double>(setup.model->blocks[b].elements);
  }
  const GenerationLoad load{.sequences = 4, .prompt_tokens = 200, .drawn_tokens = 50};
  const GenerationPrediction p =
      predicted(setup, load, [&](HardwareSection& h) { h.link_gbs = kGbs; });
  CHECK(p.seconds == Approx(50 * streamed / (kGbs * 1e9 / 0.905)).epsilon(0.03));
  CHECK(p.critical.front().name == "weights_in");
}

TEST_CASE("keys and values on the host take the link in") {
  constexpr double kGbs = 0.01;
  const GenerationSetup setup = within({}, 16, 300, 3);
  const GenerationLoad load{.sequences = 16, .prompt_tokens = 200, .drawn_tokens = 50};
  const GenerationPrediction p =
      predicted(setup, load, [&](HardwareSection& h) { h.link_gbs = kGbs; });
  const double expected_s = 16 * 225 * row_bytes() / (kGbs * 1e9 / 0.905);
  CHECK(p.draw_s == Approx(expected_s).epsilon(0.05));
  CHECK(p.critical.front().name == "activations_in");
}

TEST_CASE("keys and values that the host attends to take its memory") {
  constexpr double kGbs = 0.01;
  const GenerationLoad load{.sequences = 16, .prompt_tokens = 200, .drawn_tokens = 50};
  const GenerationSetup setup = within({}, 16, 300, 3, true);
  REQUIRE(setup.kv.attended_at_home());
  const GenerationPrediction host =
      predicted(setup, load, [&](HardwareSection& h) { h.host_gbs = kGbs; });
  // With four query heads for each of keys the host computes for longer than it reads.
  constexpr double kShare = 2.25 / 4;
  CHECK(host.draw_s == Approx(16 * 225 * row_bytes() / (kShare * kGbs * 1e9)).epsilon(0.05));
  CHECK(host.critical.front().name == "host");
  // The link has queries, keys and values of a token, and one row that comes back.
  const GenerationPrediction link =
      predicted(setup, load, [&](HardwareSection& h) { h.link_gbs = kGbs; });
  const double of_token = 4.0 * 2 * (32 + 2 * 8 + 32) * 128;
  CHECK(link.draw_s < 1.2 * 16 * of_token / (kGbs * 1e9 * 0.9));
  CHECK(link.draw_s > 0.6 * 16 * of_token / (kGbs * 1e9));
}

TEST_CASE("int8 keys and values take their bytes and those of scales, of the link or of the host") {
  constexpr double kGbs = 0.01;
  constexpr double kRowBytes = 4.0 * 2 * 8 * (128 + 4);
  const GenerationLoad load{.sequences = 16, .prompt_tokens = 200, .drawn_tokens = 50};
  const GenerationPrediction fetched =
      predicted(within({}, 16, 300, 3, false, KvDType::kInt8), load,
                [&](HardwareSection& h) { h.link_gbs = kGbs; });
  CHECK(fetched.draw_s == Approx(16 * 225 * kRowBytes / (kGbs * 1e9 / 0.905)).epsilon(0.05));
  const GenerationPrediction attended =
      predicted(within({}, 16, 300, 3, true, KvDType::kInt8), load,
                [&](HardwareSection& h) { h.host_gbs = kGbs; });
  // Beside its keys a token has what is added, a query and a result in each layer.
  constexpr double kTokenBytes = kRowBytes + 4.0 * 2 * (2 * 8 + 2 * 32) * 128;
  constexpr double kShare = 0.4;  // what widening levels leaves of the rate of AdamW
  CHECK(attended.draw_s ==
        Approx(16 * (225 * kRowBytes + kTokenBytes) / (kShare * kGbs * 1e9)).epsilon(0.01));
}

TEST_CASE("a load too long to be played goes on like its middle") {
  const auto slow = [](HardwareSection& h) { h.device_gbs = 100, h.product_tflops = 10; };
  const GenerationSetup setup = within({}, 8, 200);
  GenerationLoad load{.sequences = 48, .prompt_tokens = 100, .drawn_tokens = 60};
  const GenerationPrediction played = predicted(setup, load, slow);
  load.sequences = 4800;
  const GenerationPrediction p = predicted(setup, load, slow);
  CHECK(p.seconds == Approx(100 * played.seconds).epsilon(0.03));
  CHECK(p.sweeps == Approx(100.0 * played.sweeps).epsilon(0.03));
}

TEST_CASE("nothing is predicted in f32 or for a device that nobody knows, and the keys are named") {
  GenerationSetup setup = within({}, 1, 100);
  CHECK_THAT(predict_generation(setup, {}, {kNewDevice}).unknown,
             ContainsSubstring("hardware.product_tflops"));
  setup.sizes.compute = DType::kF32;
  CHECK_THAT(predict_generation(setup, {}, {kNewDevice, fast_machine().hardware}).to_string(),
             ContainsSubstring("rates are those of bf16"));
}

TEST_CASE("long sequences are predicted as soon as short ones") {
  const GenerationSetup setup = within({}, 8, 4096);
  const GenerationLoad load{.sequences = 1000, .prompt_tokens = 96, .drawn_tokens = 4000};
  const auto with_device = [](HardwareSection& h) { h.device_gbs = 100; };
  const GenerationPrediction p = predicted(setup, load, with_device);
  GenerationLoad few = load;
  few.drawn_tokens = 250;  // a sixteenth
  CHECK(p.records > 0);
  CHECK(p.records < 4 * predicted(setup, few, with_device).records);
  const double keys = 96 + 2000;
  const double bytes = weight_bytes() / kFewRows + 8 * keys * row_bytes() / kAttention;
  const double expected_s = 125 * 4000 * bytes / 100e9;
  CHECK(p.seconds == Approx(expected_s).epsilon(0.03));
}

TEST_CASE("a load with a sequence that has no room is refused") {
  HardwareSection hardware = fast_machine().hardware;
  CHECK_THROWS_AS(predict_generation(within({}, 2, 100), {.sequences = 1, .prompt_tokens = 301},
                                     {kNewDevice, hardware}),
                  std::invalid_argument);
}

}  // namespace strata::test
