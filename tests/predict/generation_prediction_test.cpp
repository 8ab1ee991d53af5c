// Tests predicted generation against arithmetic on machines of which one part alone is slow, and
// what is chosen by it.

#include "strata/predict/generation_prediction.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "predict/paper_machines.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/plan/choose_generation.h"
#include "support/catch.h"

namespace strata::test {
namespace {

LlamaConfig large_llama() {
  LlamaConfig m;
  m.vocab_size = 32000;
  m.hidden_size = 4096;
  m.intermediate_size = 11008;
  m.num_hidden_layers = 4;
  m.num_attention_heads = 32;
  m.num_key_value_heads = 8;
  m.max_position_embeddings = 4096;
  return m;
}

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

GenerationSetup within(std::optional<std::size_t> device_bytes, std::int64_t sequences,
                       std::int64_t context, std::optional<int> kv_slots = {},
                       bool host_attention = false, KvDType kv_dtype = KvDType::kAuto) {
  Budget budget;
  budget.device_limit = device_bytes;
  return make_generation_setup(large_llama(),
                               {.compute = DType::kBF16,
                                .kv_dtype = kv_dtype,
                                .sequences = sequences,
                                .context = context,
                                .kv_slots = kv_slots,
                                .host_attention = host_attention},
                               budget);
}

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

TEST_CASE("the host attends where the link would be the bound", "[long]") {
  HardwareSection hardware = fast_machine().hardware;
  hardware.device_gbs = 3000;
  hardware.product_tflops = 600;
  hardware.link_gbs = 20;
  hardware.host_gbs = 200;
  Budget budget;
  budget.device_limit = 3 * kGiB;
  GenerationWish wish{.needs = {.compute = DType::kBF16, .context = 4000},
                      .sequences = 32,
                      .load = {.sequences = 32, .prompt_tokens = 3900, .drawn_tokens = 100}};
  const GenerationChoice fast =
      choose_generation(large_llama(), wish, budget, {kNewDevice, hardware});
  CHECK(fast.setup.kv.attended_at_home());
  CHECK(fast.setup.sequences == 32);
  CHECK_THAT(fast.text, ContainsSubstring("on the host, attended to there"));
  hardware.host_gbs = 10;
  const GenerationChoice slow =
      choose_generation(large_llama(), wish, budget, {kNewDevice, hardware});
  CHECK_FALSE(slow.setup.kv.attended_at_home());
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

TEST_CASE(
    "as many sequences are chosen as pay, within the limits, and none that were asked for "
    "change") {
  HardwareSection hardware = fast_machine().hardware;
  hardware.device_gbs = 3000;
  hardware.product_tflops = 600;
  hardware.link_gbs = 50;
  Budget budget;
  const GenerationLoad load{.sequences = 500, .prompt_tokens = 500, .drawn_tokens = 100};
  GenerationWish wish{
      .needs = {.compute = DType::kBF16, .context = 600}, .sequences = {}, .load = load};
  const auto chosen = [&] {
    return choose_generation(large_llama(), wish, budget, {kNewDevice, hardware});
  };
  const GenerationChoice roomy = chosen();
  CHECK(roomy.setup.sequences > 64);
  CHECK_THAT(roomy.text, ContainsSubstring("by rule 16 sequences at once"));
  budget.device_limit = 3 * kGiB;
  const GenerationChoice tight = chosen();
  CHECK(tight.setup.device_bytes() <= *budget.device_limit);
  CHECK(tight.prediction.tokens_per_s < roomy.prediction.tokens_per_s);
  // Beside every number of sequences that fits with keys and values on the device.
  for (std::int64_t sequences = 1; sequences <= 512; sequences *= 2) {
    try {
      const GenerationSetup other = within(budget.device_limit, sequences, 600, 0);
      CHECK(predict_generation(other, load, {kNewDevice, hardware}).tokens_per_s <=
            1.05 * tight.prediction.tokens_per_s);
    } catch (const OutOfMemory&) {
    }
  }
  wish.sequences = 5;
  CHECK(chosen().setup.sequences == 5);
  hardware = {};
  wish.sequences.reset();
  CHECK(chosen().setup.sequences == 16);
  CHECK(chosen().text.empty());
}

TEST_CASE("where the host is small, the choice is as good as any that fits", "[long]") {
  HardwareSection hardware = fast_machine().hardware;
  hardware.device_gbs = 3000;
  hardware.product_tflops = 600;
  hardware.link_gbs = 50;
  const GenerationLoad load{.sequences = 192, .prompt_tokens = 500, .drawn_tokens = 100};
  const RatedDevice device{kNewDevice, hardware};
  Budget budget;
  budget.device_limit = 1800 * kMiB;
  for (const std::size_t host_bytes : {2400 * kMiB, 3600 * kMiB, 6000 * kMiB}) {
    budget.host_limit = host_bytes;
    GenerationWish wish{
        .needs = {.compute = DType::kBF16, .context = 600}, .sequences = {}, .load = load};
    const GenerationChoice chosen = choose_generation(large_llama(), wish, budget, device);
    double best = 0;
    for (const std::int64_t sequences : {1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192}) {
      for (const int way : {0, 1, 2}) {
        GenerationNeeds needs = wish.needs;
        needs.sequences = sequences;
        needs.kv_slots = way == 0 ? 0 : kKvSlots;
        needs.host_attention = way == 2;
        try {
          const GenerationSetup setup = make_generation_setup(large_llama(), needs, budget);
          best = std::max(best, predict_generation(setup, load, device).tokens_per_s);
        } catch (const OutOfMemory&) {
        }
      }
    }
    INFO(host_bytes);
    CHECK(chosen.prediction.tokens_per_s > 0.94 * best);
  }
}

TEST_CASE("as many sequences are chosen as leave the weights on the device") {
  HardwareSection hardware = fast_machine().hardware;
  hardware.device_gbs = 3000;
  hardware.link_gbs = 10;
  hardware.host_gbs = 10;
  const GenerationLoad load{.sequences = 192, .prompt_tokens = 500, .drawn_tokens = 100};
  const auto chosen_within = [&](std::size_t device_bytes, std::optional<std::int64_t> tokens) {
    Budget budget;
    budget.device_limit = device_bytes;
    return choose_generation(
        large_llama(),
        {.needs = {.compute = DType::kBF16, .context = 600, .sweep_tokens = tokens},
         .sequences = {},
         .load = load},
        budget, {kNewDevice, hardware});
  };
  for (const std::int64_t sequences : {21, 45}) {  // neither is tried on the way up
    // Of an embedding of its own rows are read on the host: all else stays on the device.
    const GenerationSetup full = make_generation_setup(
        large_llama(),
        {.compute = DType::kBF16, .sequences = sequences, .context = 600, .resident_units = 5}, {});
    REQUIRE(full.travelling_units() == 0);
    const GenerationChoice chosen = chosen_within(full.device_bytes(), 4096);
    CHECK(chosen.setup.sequences == sequences);
    CHECK(chosen.setup.resident_units == 5);
    CHECK(within(full.device_bytes(), sequences + 1, 600).travelling_units() > 0);
    // Shorter sweeps leave memory for more of them, and are taken if that is faster.
    const GenerationChoice open = chosen_within(full.device_bytes(), {});
    CHECK(open.prediction.tokens_per_s >= chosen.prediction.tokens_per_s);
    CHECK(open.setup.sequences >= sequences);
    CHECK(open.setup.sweep.tokens <= 4096);
  }
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

TEST_CASE("a choice records a bounded number of submissions, also for the largest model",
          "[long]") {
  const RunConfig config = config_file("llama-70b.json");
  const GenerationWish wish{.needs = {.compute = DType::kBF16, .context = 1024},
                            .sequences = {},
                            .load = {.sequences = 512, .prompt_tokens = 512, .drawn_tokens = 512}};
  Budget budget;
  budget.device_limit = 80 * kGiB;
  const GenerationChoice choice =
      choose_generation(config.model.llama, wish, budget, {"NVIDIA H200"});
  CHECK(choice.records >= choice.prediction.records);
  CHECK(choice.records < 40'000'000);  // a processor records some five million in a second
  CHECK(choice.prediction.tokens_per_s > 0);
}

TEST_CASE("sweeps are as short as the weights of a 70B need, however many sequences are wished",
          "[long]") {
  const RunConfig config = config_file("llama-70b.json");
  Budget budget;
  budget.device_limit = 135 * kGiB + 100 * kMiB;
  const auto chosen = [&](std::int64_t sequences) {
    return choose_generation(
        config.model.llama,
        {.needs = {.compute = DType::kBF16, .kv_dtype = KvDType::kInt8, .context = 1024},
         .sequences = sequences,
         .load = {.sequences = 84, .prompt_tokens = 512, .drawn_tokens = 512}},
        budget, {"NVIDIA H200"});
  };
  double of_fewer = 0;
  // Of 43 no sweeps leave all weights there. Of 41 keys on the host seem better than usual sweeps.
  for (const std::int64_t sequences : {40, 41, 42}) {
    INFO(sequences);
    const GenerationChoice choice = chosen(sequences);
    CHECK(choice.setup.travelling_units() == 0);
    CHECK(choice.prediction.tokens_per_s > 0.99 * of_fewer);
    of_fewer = choice.prediction.tokens_per_s;
  }
}

}  // namespace strata::test
