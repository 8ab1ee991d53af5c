// The search of `tune`: what it may vary, that its choice is that of trying everything, that what
// it offers fits, that it is fast enough, and what it says where nothing fits.

#include "strata/plan/tune.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "plan/tune_search.h"
#include "predict/paper_machines.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/comm/rank_groups.h"
#include "strata/device/gpu_models.h"
#include "strata/ops/moment_codes.h"
#include "support/catch.h"
#include "support/predictions.h"
#include "support/scratch_folder.h"

namespace {

using namespace strata;
using test::config_file;
using test::fast_machine_with_large_layers;
using test::kNewDevice;

/// Returns a machine with a GPU that is known by name and limits in GiB, as `plan` takes it to be.
PlannedRank machine(double device_gib, double host_gib, std::string_view gpu = "NVIDIA H200") {
  const auto bytes = [](double gib) { return static_cast<std::size_t>(gib * kGiB); };
  PlannedRank planned{.place = {}, .budget = {}, .device = gpu};
  planned.budget.device_limit = bytes(device_gib);
  planned.budget.device_overhead = estimated_device_overhead(BackendChoice::kCuda);
  planned.budget.host_limit = bytes(host_gib);
  planned.budget.host_overhead = estimated_host_overhead(BackendChoice::kCuda);
  return planned;
}

/// Returns one of configs/ without its limits, with rows of 2048 tokens.
RunConfig model_config(const std::string& name, const std::vector<std::string>& sets = {}) {
  std::vector<std::string> all{"memory.device_limit=null", "memory.host_limit=null",
                               "model.max_position_embeddings=2048", "data.sequence_length=2048",
                               "optimizer.grad_clip=null"};
  all.insert(all.end(), sets.begin(), sets.end());
  return config_file(name.c_str(), all);
}

}  // namespace

TEST_CASE("candidates cut a step in every way, and are runs that may be") {
  const RunConfig base = fast_machine_with_large_layers();  // clips
  const std::vector<TuneKeys> found = tune_candidates(base, {.step_rows = 8});
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> shapes;
  for (const TuneKeys& keys : found) {
    CHECK(keys.rows * keys.sub_batches * keys.passes == 8);
    CHECK(keys.timing != UpdateTiming::kOnArrival);
    CHECK(keys.numbers.moment_dtype == DType::kF32);
    CHECK_NOTHROW(keys.put_into(base).validate("a test"));
    shapes.insert({keys.rows, keys.sub_batches, keys.passes});
  }
  CHECK(shapes.size() == 10);  // 2^3 into three factors
  CHECK(found.size() == 20);   // before_use and speculative
  CHECK(found.front().timing == UpdateTiming::kBeforeUse);
  CHECK(found.front().passes == 1);
}

TEST_CASE("without clipping gradients may arrive in a ring, and moments are rounded if allowed") {
  RunConfig base = fast_machine_with_large_layers();  // 8 layers
  base.optimizer.grad_clip.reset();
  base.schedule.gradient_sums = GradientSums::kAuto;
  const std::vector<TuneKeys> found = tune_candidates(base, {.step_rows = 2, .moment_dtype = true});
  std::set<std::int64_t> rings;
  std::set<UpdateTiming> timings;
  std::set<DType> moments;
  for (const TuneKeys& keys : found) {
    timings.insert(keys.timing);
    rings.insert(keys.gradient_ring.value_or(0));
    moments.insert(keys.numbers.moment_dtype);
    if (keys.gradient_ring && keys.passes > 1) {
      CHECK(keys.gradient_sums == GradientSums::kDevice);
    }
  }
  CHECK(rings == std::set<std::int64_t>{0, 3, 5});
  CHECK(timings == std::set{UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival});
  CHECK(moments == std::set{DType::kF32, DType::kBF16, kMomentCode});
  CHECK(found.front().numbers.moment_dtype == DType::kF32);
  CHECK(found.back().numbers.moment_dtype == kMomentCode);
}

TEST_CASE("masters, products and the base are searched where they are allowed and possible") {
  RunConfig base = fast_machine_with_large_layers();
  const auto all = [&](const TuneSpace& space) {
    std::set<std::tuple<MasterWeights, Products, Form>> found;
    for (const TuneKeys& keys : tune_candidates(base, space)) {
      const RunConfig config = keys.put_into(base);
      CHECK_NOTHROW(config.validate("a test"));
      CHECK(config.optimizer.master == keys.numbers.master);
      CHECK(config.run.products == keys.numbers.products);
      found.insert({keys.numbers.master, keys.numbers.products, keys.numbers.base_format});
    }
    return found;
  };
  const auto split = MasterWeights::kSplit;
  using enum Products;
  CHECK(all({.step_rows = 2}) == std::set{std::tuple(split, kPlain, Form::kPlain)});
  CHECK(all({.step_rows = 2, .master = true, .products = true}).size() == 6);
  // Without adapters there is no base.
  CHECK(all({.step_rows = 2, .base_format = true}).size() == 1);
  base.adapter.emplace();
  const auto bases = all({.step_rows = 2, .products = true, .base_format = true});
  CHECK(bases.contains({split, kFp8, Form::kFp8}));
  CHECK(bases.contains({split, kPlain, Form::kNf4}));
  const std::vector<TuneKeys> found = tune_candidates(base, {.step_rows = 2, .base_format = true});
  CHECK(found.front().numbers.base_format == Form::kPlain);
  CHECK(found.back().numbers.base_format == Form::kNf4);
  base.run.dtype = DType::kF32;  // has whole weights, and products of f32
  CHECK(all({.step_rows = 2, .master = true, .products = true}).size() == 1);
}

TEST_CASE("a key that is not searched keeps its value") {
  RunConfig base = fast_machine_with_large_layers();
  base.schedule.rows = 2;
  base.optimizer.timing = UpdateTiming::kSpeculative;
  const TuneSpace space{.step_rows = 24, .rows = false, .timing = false, .gradient_ring = false};
  const std::vector<TuneKeys> found = tune_candidates(base, space);
  REQUIRE(found.size() == 3);  // 1, 2 and 4 passes: 3 are less than twice 2
  for (const TuneKeys& keys : found) {
    CHECK(keys.rows == 2);
    CHECK(keys.timing == UpdateTiming::kSpeculative);
  }
}

TEST_CASE("sums that the config keeps on the host leave rings to steps of one pass") {
  RunConfig base = fast_machine_with_large_layers();  // sums on the host
  base.optimizer.grad_clip.reset();
  for (const TuneKeys& keys : tune_candidates(base, {.step_rows = 4})) {
    CHECK(keys.gradient_sums == GradientSums::kHost);
    CHECK((!keys.gradient_ring || keys.passes == 1));
  }
}

TEST_CASE("a slow host is relieved by fewer passes and early updates") {
  RunConfig base = fast_machine_with_large_layers();
  base.optimizer.grad_clip.reset();
  base.hardware.host_gbs = 1;
  base.hardware.link_gbs = 1;
  ThreadPool pool(2);
  const TuneResult result = tune(
      base, {.step_rows = 4}, PlannedRank{.place = {}, .budget = {}, .device = kNewDevice}, pool);
  REQUIRE(!result.best.empty());
  CHECK(result.best.front().keys.passes == 1);
  CHECK(result.best.front().keys.timing == UpdateTiming::kOnArrival);
  CHECK(result.best.front().prediction.tokens_per_s > 0);
  for (std::size_t i = 1; i < result.best.size(); ++i) {
    CHECK(result.best[i].prediction.step_s >
          result.best[i - 1].prediction.step_s * (1 - 2 * kEquallyFast));
  }
}

TEST_CASE("a search on one thread and on three chooses the same") {
  const RunConfig base = fast_machine_with_large_layers();
  std::vector<TuneKeys> chosen;
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    const TuneResult result = tune(
        base, {.step_rows = 4}, PlannedRank{.place = {}, .budget = {}, .device = kNewDevice}, pool);
    chosen.push_back(result.best.at(0).keys);
  }
  CHECK(chosen[0] == chosen[1]);
}

TEST_CASE("speculative ways that can update nothing early are left out") {
  const RunConfig base = fast_machine_with_large_layers();
  PlannedRank planned{.place = {}, .budget = {}, .device = kNewDevice};
  ThreadPool pool(2);
  const auto found = [&](UpdateTiming timing) {
    const TuneLimits all{.shown = 100, .exhaustive = true};
    std::vector<Tuned> best = tune(base, {.step_rows = 1}, planned, pool, all).best;
    std::erase_if(best, [&](const Tuned& tuned) { return tuned.keys.timing != timing; });
    return best;
  };
  const std::vector<Tuned> free = found(UpdateTiming::kBeforeUse);
  REQUIRE(free.size() == 1);
  CHECK(found(UpdateTiming::kSpeculative).size() == 1);
  // Without room for the old state of a layer.
  planned.budget.host_limit = free.front().placement.setup.host_bytes() + 1;
  CHECK(found(UpdateTiming::kBeforeUse).size() == 1);
  CHECK(found(UpdateTiming::kSpeculative).empty());
}

TEST_CASE("how many are shown does not change which one is chosen") {
  // A device so slow that all ways to run it take as long, but for less than what counts.
  RunConfig base = fast_machine_with_large_layers();
  base.optimizer.grad_clip.reset();
  base.hardware.product_tflops = 1e-4;
  const PlannedRank planned{.place = {}, .budget = {}, .device = kNewDevice};
  ThreadPool pool(2);
  const auto best = [&](std::size_t shown) {
    return tune(base, {.step_rows = 2}, planned, pool, {.shown = shown, .exhaustive = true}).best;
  };
  const std::vector<Tuned> all = best(100);
  REQUIRE(all.size() > 8);
  for (const std::size_t shown : {1, 8}) {
    const std::vector<Tuned> some = best(shown);
    REQUIRE(some.size() == shown);
    for (std::size_t i = 0; i < shown; ++i) {
      CHECK(some[i].keys == all[i].keys);
      CHECK(some[i].prediction.step_s == all[i].prediction.step_s);
    }
  }
}

TEST_CASE("a device of which nothing is known is said to be so") {
  RunConfig base = fast_machine_with_large_layers();
  base.hardware.device_gbs.reset();
  ThreadPool pool(1);
  const TuneResult result = tune(
      base, {.step_rows = 2}, PlannedRank{.place = {}, .budget = {}, .device = kNewDevice}, pool);
  CHECK(result.best.empty());
  CHECK_THAT(result.unknown, ContainsSubstring("hardware.device_gbs"));
}

TEST_CASE("the choice is within 1 % of trying everything", "[long]") {
  struct Machine {
    double device_gib, host_gib;
    const char* gpu;
    std::vector<std::string> sets;
    TuneSpace space{.step_rows = 8};
  };
  const std::vector<std::string> six{"model.num_hidden_layers=6"};
  const auto with = [&](std::vector<std::string> sets) {
    sets.insert(sets.end(), six.begin(), six.end());
    return sets;
  };
  for (const Machine& m :
       std::vector<Machine>{{8, 64, "NVIDIA H200", with({})},
                            {10, 26, "NVIDIA GeForce RTX 4090", with({})},
                            {8, 40, "NVIDIA GeForce RTX 3090", with({"optimizer.grad_clip=1"})},
                            {16, 24, "NVIDIA H100 PCIe", with({"hardware.link_gbs=10"})},
                            {8, 32, "NVIDIA H200", with({}), {.step_rows = 4, .products = true}}}) {
    CAPTURE(m.gpu, m.device_gib, m.host_gib);
    const RunConfig base = model_config("llama-7b.json", m.sets);
    const PlannedRank planned = machine(m.device_gib, m.host_gib, m.gpu);
    ThreadPool pool(0);
    // Fewer than it places by default, so that it has to leave out as large a part as of 84.
    const TuneResult chosen = tune(base, m.space, planned, pool, {.placed = 8});
    const TuneResult all = tune(base, m.space, planned, pool, {.exhaustive = true});
    REQUIRE(all.placed == all.fitting);
    CHECK(chosen.placed < all.placed);
    double best_s = all.best.front().prediction.step_s;
    for (const Tuned& tuned : all.best) best_s = std::min(best_s, tuned.prediction.step_s);
    CHECK(chosen.best.front().prediction.step_s <= 1.01 * best_s);
  }
}

TEST_CASE("what is offered plans within its limits, on every machine and for every model",
          "[long]") {
  const ScratchFolder folder;
  std::size_t offered = 0;
  // Of the large ones a quarter of the layers: that fits as tightly into some of these hosts.
  for (const auto& [model, layers] :
       {std::pair("llama-1.3b.json", 24), std::pair("llama3-8b.json", 32),
        std::pair("llama-30b.json", 15), std::pair("llama-70b.json", 20)}) {
    const RunConfig base =
        model_config(model, {"model.num_hidden_layers=" + std::to_string(layers)});
    for (const double device_gib : {24, 80, 141}) {
      for (const double host_gib : {32, 128, 512}) {
        CAPTURE(model, device_gib, host_gib);
        const PlannedRank planned = machine(device_gib, host_gib);
        const TuneSpace space{.step_rows = 2, .moment_dtype = true};
        ThreadPool pool(0);
        if (!any_fits(base, tune_candidates(base, space), planned, pool)) continue;
        const TuneResult result = tune(base, space, planned, pool, {.placed = 1, .shown = 1});
        RunConfig config = result.best.at(0).config;
        save_run_config(config, folder.file("config.json"));
        config = load_run_config(folder.file("config.json"));
        const Setup setup = choose_placement(config, planned).setup;
        CHECK(setup.device_bytes() <= *planned.budget.device_limit);
        CHECK(setup.host_bytes() <= *planned.budget.host_limit);
        ++offered;
      }
    }
  }
  CHECK(offered >= 30);
}

TEST_CASE("predictions from datasheets are within 25 % of what another program published",
          "[long]") {
  // The README of github.com/IST-DASLab/llmq (commit 00ea1be9): Qwen2.5-7B in bf16 with bf16
  // moments, batches of 4 rows of 1024 tokens, 262144 tokens a step, on GPUs where its step is
  // bound by compute. What it offloads on smaller ones says nothing of strata.
  struct Published {
    const char* gpu;
    double device_gib, tokens_per_s;
  };
  const RunConfig base = config_file(
      "llama-7b.json",
      {"memory.device_limit=null", "model.vocab_size=152064", "model.hidden_size=3584",
       "model.intermediate_size=18944", "model.num_hidden_layers=28",
       "model.num_attention_heads=28", "model.num_key_value_heads=4", "data.sequence_length=1024",
       "schedule.rows=4", "schedule.sub_batches=4", "schedule.passes=16",
       "optimizer.moment_dtype=bf16", "optimizer.grad_clip=null", "optimizer.timing=on_arrival"});
  for (const Published& row :
       {Published{"NVIDIA H100 80GB HBM3", 76, 14000},
        Published{"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 91, 8000},
        Published{"NVIDIA L40S", 43, 3900}}) {
    CAPTURE(row.gpu);
    const PlannedRank planned = machine(row.device_gib, 256, row.gpu);
    const Setup setup = make_setup(base, choices_by_rule(base), planned);
    const Prediction predicted = predict(setup, planned.device);
    CHECK_THAT(predicted.rates, ContainsSubstring("datasheet estimates"));
    CHECK(predicted.tokens_per_s > 0.75 * row.tokens_per_s);
    CHECK(predicted.tokens_per_s < 1.25 * row.tokens_per_s);
  }
}

TEST_CASE("predictions from datasheets are within 25 % of what was published of ranks of A100s",
          "[long]") {
  // scripts/train/benchmarking/README.md of github.com/mosaicml/llm-foundry (commit 061f2c7c), the
  // rows "7b, 2048" of one host with 8 GPUs: everything is on the GPUs, in bf16, sharded over all
  // of them. The model has the products of a LLaMA of this shape, but for 0.5 % of its parameters.
  struct Published {
    const char* gpu;
    double device_gib;
    std::vector<std::string> how;  ///< rows, accumulation and recompute, as published
    double tokens_per_s;           ///< of one GPU
  };
  const std::vector<std::string> model{
      "memory.device_limit=null",     "model.vocab_size=50432", "model.tie_word_embeddings=true",
      "data.sequence_length=2048",    "schedule.sub_batches=1", "schedule.resident_units=34",
      "schedule.gradient_sums=device"};
  for (const Published& row :
       {Published{"NVIDIA A100-SXM4-80GB",
                  78,
                  {"schedule.rows=6", "schedule.passes=2", "schedule.activations=full"},
                  4641},
        Published{"NVIDIA A100-SXM4-40GB",
                  38,
                  {"schedule.rows=12", "schedule.passes=4", "schedule.activations=recompute"},
                  3679}}) {
    CAPTURE(row.gpu);
    std::vector<std::string> sets = model;
    sets.insert(sets.end(), row.how.begin(), row.how.end());
    const RunConfig config = config_file("llama-7b.json", sets);
    PlannedRank planned = machine(row.device_gib, 256, row.gpu);
    planned.place = places_by_host(std::vector<std::string>(8, "host")).front();
    planned.budget.ranks_on_host = 8;
    const Setup setup = choose_placement(config, planned).setup;
    const Prediction predicted = predict(setup, planned.device);
    CHECK_THAT(predicted.rates, ContainsSubstring("datasheet estimates"));
    const double tokens_per_s = predicted.tokens_per_s / 8;
    CAPTURE(tokens_per_s);
    CHECK(tokens_per_s > 0.75 * row.tokens_per_s);
    CHECK(tokens_per_s < 1.25 * row.tokens_per_s);
  }
}

TEST_CASE("no prediction for a card that nobody measured is above what the best program reaches") {
  // benchmarks/4090x1.md of github.com/IST-DASLab/llmq (commit 7f895bdb): Qwen2.5-7B in bf16, rows
  // of 1024 tokens, 2780 tokens/s on an RTX 4090; 43.04 GFLOP a token. Of the others see below.
  constexpr double kFlops = 43.04e9;
  struct Card {
    const char* gpu;
    double device_gib, best_mfu;
  };
  const RunConfig base = model_config(
      "llama-7b.json", {"memory.device_limit=null", "schedule.rows=8", "schedule.sub_batches=8",
                        "optimizer.grad_clip=null", "optimizer.timing=on_arrival",
                        "hardware.host_gbs=500", "hardware.link_gbs=100"});
  for (const Card& card : {Card{"NVIDIA GeForce RTX 3090", 23, 2780 * kFlops / 165.2e12},
                           Card{"NVIDIA GeForce RTX 4090", 23, 2780 * kFlops / 165.2e12},
                           Card{"NVIDIA GeForce RTX 5090", 31, 2780 * kFlops / 165.2e12},
                           Card{"NVIDIA L40S", 43, 3900 * kFlops / 362e12},
                           Card{"NVIDIA H100 80GB HBM3", 76, 14000 * kFlops / 989.4e12}}) {
    CAPTURE(card.gpu);
    PlannedRank planned = machine(card.device_gib, 256, card.gpu);
    planned.budget.peak_tflops = gpu_of_device(card.gpu)->peak_tflops;
    const Setup setup = make_setup(base, choices_by_rule(base), planned);
    const Prediction predicted = predict(setup, planned.device);
    CAPTURE(predicted.to_string());
    CHECK(predicted.mfu.value() > 0.2);
    CHECK(predicted.mfu.value() <= card.best_mfu + 0.001);
    CHECK_THAT(predicted.to_string(), ContainsSubstring("nobody has measured strata on this GPU"));
  }
  // Who has measured the products of a card knows better, and the H200 was measured.
  const PlannedRank h200 = machine(100, 256, "NVIDIA H200");
  const Prediction measured = predict(make_setup(base, choices_by_rule(base), h200), h200.device);
  CHECK_THAT(measured.to_string(), !ContainsSubstring("nobody has measured"));
  RunConfig given = base;
  given.hardware.product_tflops = 70;
  PlannedRank own = machine(23, 256, "NVIDIA GeForce RTX 3090");
  own.budget.peak_tflops = 71;
  const Prediction known = predict(make_setup(given, choices_by_rule(given), own), own.device);
  CHECK(known.mfu.value() > 2780 * kFlops / 165.2e12);
  CHECK_THAT(known.to_string(), !ContainsSubstring("nobody has measured"));
}

TEST_CASE("tuning a 7B and a 128-layer model predicts few steps, each from few records", "[long]") {
  struct Case {
    const char* model;
    double host_gib;
    std::int64_t step_rows;
    std::vector<std::string> sets{};
  };
  for (const Case& c :
       {Case{"llama-7b.json", 125, 32},
        Case{"llama-7b.json", 500, 16, {"model.num_hidden_layers=128", "optimizer.grad_clip=1"}}}) {
    CAPTURE(c.model, c.sets);
    const RunConfig base = model_config(c.model, c.sets);
    ThreadPool pool(0);
    const TuneResult result = tune(base, {.step_rows = c.step_rows}, machine(80, c.host_gib), pool);
    CHECK(result.fitting > 20);
    // Each candidate is predicted by the rules, and few have their placement decided as well, for
    // which what kernels alone make too slow is not predicted.
    CHECK(result.candidates <= 200);
    CHECK(result.placed <= TuneLimits().placed);
    CHECK(result.predicted <= 200);
    REQUIRE(!result.best.empty());
    for (const Tuned& tuned : result.best) CHECK(tuned.prediction.records <= 300'000);
  }
}

TEST_CASE("where nothing fits the memory that binds is named, and what would fit with its price") {
  const RunConfig base = model_config("llama-7b.json", {"model.num_hidden_layers=12"});
  ThreadPool pool(0);
  const auto refusal = [&](const RunConfig& config, const PlannedRank& planned) {
    try {
      (void)tune(config, {.step_rows = 2}, planned, pool);
    } catch (const OutOfMemory& error) {
      return std::string(error.what());
    }
    return std::string("it fits");
  };
  // 2.7 billion parameters: 35 GiB of state, 10 GiB less with bf16 moments, 15 with those in 8
  // bits.
  RunConfig clipped = base;
  clipped.optimizer.grad_clip = 1;
  const std::string text = refusal(clipped, machine(6, 30));
  INFO(text);
  CHECK_THAT(text, ContainsSubstring("on the device; the limit is 6 GiB (memory.device_limit)"));
  CHECK_THAT(text, ContainsSubstring("on the device for whose state the host has no room"));
  CHECK_THAT(text,
             ContainsSubstring("on the host: ") && ContainsSubstring("; the limit is 30 GiB"));
  CHECK_THAT(text, ContainsSubstring("\n  --host-memory 3"));
  CHECK_THAT(text, ContainsSubstring("\n  --allow optimizer.moment_dtype (bf16 moments): "));
  CHECK_THAT(text, ContainsSubstring(" tokens/s"));
  CHECK_THAT(refusal(clipped, machine(6, 22)),
             ContainsSubstring("\n  --allow optimizer.moment_dtype (8bit moments): "));
  const std::string device = refusal(base, machine(1, 200));
  INFO(device);
  CHECK_THAT(device, ContainsSubstring("on the device"));
  CHECK_THAT(device, ContainsSubstring("\n  --device-memory "));
  CHECK_THAT(refusal(base, machine(0.5, 1)), ContainsSubstring("take a smaller model"));
}
