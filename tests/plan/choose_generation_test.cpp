// Tests how many sequences are continued at once, where their keys and values live and how long
// sweeps are: beside everything else that fits, by prediction on machines that exist on paper.

#include "strata/plan/choose_generation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "predict/paper_generation.h"
#include "predict/paper_machines.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/predict/generation_prediction.h"
#include "support/catch.h"

namespace strata::test {

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

TEST_CASE("a choice records a bounded number of submissions, by the layers of the model",
          "[long]") {
  for (const std::int64_t layers : {8, 16}) {
    CAPTURE(layers);
    const RunConfig config =
        config_file("llama-70b.json", {"model.num_hidden_layers=" + std::to_string(layers)});
    const GenerationWish wish{
        .needs = {.compute = DType::kBF16, .context = 1024},
        .sequences = {},
        .load = {.sequences = 512, .prompt_tokens = 512, .drawn_tokens = 512}};
    Budget budget;
    budget.device_limit = static_cast<std::size_t>(layers + 4) * kGiB;  // as 84 GiB for all 80
    const GenerationChoice choice =
        choose_generation(config.model.llama, wish, budget, {"NVIDIA H200"});
    CHECK(choice.records >= choice.prediction.records);
    // A processor records some five million in a second.
    CHECK(choice.records < 400'000 * static_cast<std::size_t>(layers));
    CHECK(choice.prediction.tokens_per_s > 0);
  }
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
