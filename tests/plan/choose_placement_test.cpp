// What is chosen where the answer is evident, by invented times and by invented machines.

#include "strata/plan/choose_placement.h"

#include <map>
#include <string>
#include <vector>

#include "predict/paper_machines.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/predict/known_rates.h"
#include "strata/predict/prediction.h"
#include "support/catch.h"
#include "support/predictions.h"
#include "support/scratch_folder.h"
#include "support/tiny_config.h"

namespace {

using namespace strata;
using test::config_file;
using test::fast_machine;
using test::fast_machine_with_large_layers;
using test::kNewDevice;
using test::slow_host;

/// Returns what is chosen by times that `step_s` says of a resolved config; nothing is predicted.
Placement choose_by(const RunConfig& config,
                    const std::function<std::optional<double>(const RunConfig&)>& step_s) {
  return choose_placement(config,
                          {.setup = [&](const PlanChoices& c) { return make_setup(config, c, {}); },
                           .step_s = [&](const Setup& s) { return step_s(resolve(config, s)); }});
}

Placement choose(const RunConfig& config, const Budget& budget = {}) {
  return choose_placement(config, PlannedRank{.budget = budget, .device = kNewDevice});
}

double predicted_s(const RunConfig& config, const Budget& budget = {}) {
  return predict_step_s(make_setup(config, 0, 1, budget), kNewDevice).value();
}

const PlacementChoice* choice_of(const Placement& placement, std::string_view key) {
  for (const PlacementChoice& choice : placement.choices) {
    if (choice.key == key) return &choice;
  }
  return nullptr;
}

/// Returns a config as it is read from the run folder that keeps it.
RunConfig reloaded(const RunConfig& config) {
  const ScratchFolder folder;
  save_run_config(config, folder.file("config.json"));
  return load_run_config(folder.file("config.json"));
}

/// Returns what is chosen on the GPU that a plan is made for.
Placement choose_on_h200(const RunConfig& config, const Budget& budget) {
  return choose_placement(config, PlannedRank{.budget = budget, .device = "NVIDIA H200"});
}

}  // namespace

TEST_CASE("a share is interleaved if it gains more than predictions may be wrong by") {
  const RunConfig config = test::tiny_config();
  const auto with = [&](double best_s) {
    return choose_by(
        config, [&](const RunConfig& c) { return c.optimizer.interleave == 0.5 ? best_s : 1; });
  };
  const Placement much = with(0.9 * kWorthChanging);
  CHECK(much.setup.choices.interleave == 0.5);
  CHECK(much.setup.choices.interleave == 0.5);
  CHECK(much.to_string() ==
        "optimizer.interleave 0.5 chosen: 0.882 s a step predicted, 1.000 s with 0\n");
  const Placement little = with(1.01 * kWorthChanging);
  CHECK(little.setup.choices.interleave == 0.0);
  CHECK(little.to_string() ==
        "optimizer.interleave 0 chosen: 1.000 s a step predicted, 0.990 s with 0.5\n");
}

TEST_CASE("what a config names is not chosen, nor is what does not fit") {
  RunConfig config = test::tiny_config();
  const auto less_is_better = [](const RunConfig& c) { return 1 - c.optimizer.interleave.value(); };
  CHECK(choose_by(config, less_is_better).setup.choices.interleave == 1.0);
  const Placement narrow = choose_placement(
      config, {.setup =
                   [&](const PlanChoices& c) {
                     if (c.interleave > 0.3) throw OutOfMemory("too large");
                     return make_setup(config, c, {});
                   },
               .step_s = [&](const Setup& s) { return less_is_better(resolve(config, s)); }});
  CHECK(narrow.setup.choices.interleave == 0.25);
  config.optimizer.interleave = 0.0;
  const Placement named = choose_by(config, less_is_better);
  CHECK(named.setup.choices.interleave == 0.0);
  CHECK(named.choices.empty());
}

TEST_CASE("layers of muon are not interleaved") {
  RunConfig config = slow_host();
  config.optimizer.interleave.reset();
  REQUIRE(choice_of(choose(config), "optimizer.interleave") != nullptr);
  config.optimizer.kind = OptimizerKind::kMuon;
  CHECK(choice_of(choose(config), "optimizer.interleave") == nullptr);
}

TEST_CASE("the products of muon are in the predicted time") {
  RunConfig config = fast_machine_with_large_layers();
  constexpr double kFlops = 1e8;  // a second: so few that nothing else counts
  config.hardware.product_tflops = kFlops / 1e12;
  config.optimizer.interleave = 0;
  const double adamw_s = predicted_s(config);
  config.optimizer.kind = OptimizerKind::kMuon;
  double flops = 0;  // of five steps for each matrix, [n, m] or [m, n]
  const auto add = [&](double n, double m) { flops += 5 * (4 * n * n * m + 2 * n * n * n); };
  const LlamaConfig& model = config.model.llama;
  for (std::int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    for (const double width : {24, 12, 12, 24}) add(width, 64);  // q, k, v, o
    for (int i = 0; i < 3; ++i) add(64, 256);                    // gate, up, down
  }
  CHECK(predicted_s(config) - adamw_s == Approx(flops / kFlops).epsilon(0.1));

  // Three ranks work on gate, up and down, and the slowest of them on q besides.
  config.hardware.collective_gbs = 1e12;
  config.hardware.nic_gbs = 1e12;
  const auto of_three = [&](OptimizerKind kind) {
    config.optimizer.kind = kind;
    return predict_step_s(make_setup(config, 0, 3, {.ranks_on_host = 3}), kNewDevice).value();
  };
  flops = 0;
  for (std::int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    add(64, 256);
    add(24, 64);
  }
  CHECK(of_three(OptimizerKind::kMuon) - of_three(OptimizerKind::kAdamW) ==
        Approx(flops / kFlops).epsilon(0.1));
}

TEST_CASE("deferred units are chosen beside the rule's, as far as a gradient ring allows") {
  RunConfig config = test::tiny_config();
  config.model.llama.num_hidden_layers = 10;
  config.optimizer.grad_clip = std::nullopt;
  config.optimizer.timing = UpdateTiming::kOnArrival;
  config.optimizer.interleave = 0;
  std::map<std::int64_t, double> times{{4, 1.0}, {0, 1.0}, {2, 1.0}, {6, 0.8}, {8, 0.7}};
  const auto deferred = [&] {
    const auto step_s = [&](const RunConfig& c) {
      return times.at(c.optimizer.deferred_units.value());
    };
    return choose_by(config, step_s).setup.choices.deferred_units;
  };
  CHECK(deferred() == 8);
  config.optimizer.gradient_ring = 8;
  CHECK(deferred() == 6);
  times[6] = 0.99;
  CHECK(deferred() == 4);
}

TEST_CASE("a slow host interleaves, a slow link does not") {
  for (const UpdateTiming timing :
       {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival, UpdateTiming::kSpeculative}) {
    INFO(enum_name(kUpdateTimingNames, timing));
    RunConfig config = slow_host();
    config.optimizer.timing = timing;
    if (timing == UpdateTiming::kOnArrival) config.optimizer.grad_clip = std::nullopt;
    const Placement host = choose(config);
    const PlacementChoice* interleave = choice_of(host, "optimizer.interleave");
    REQUIRE(interleave != nullptr);
    CHECK(host.setup.choices.interleave > 0.0);
    CHECK(interleave->other == "0");
    const RunConfig chosen = resolve(config, host.setup);
    RunConfig none = chosen;
    none.optimizer.interleave = 0;
    CHECK(interleave->step_s == predicted_s(chosen));
    CHECK(interleave->other_s == predicted_s(none));
    CHECK(interleave->step_s < kWorthChanging * interleave->other_s);
    config.hardware.link_gbs = 1e-6;
    CHECK(choose(config).setup.choices.interleave == 0.0);
  }
}

TEST_CASE("auto spills where that is predicted to be no slower") {
  RunConfig config = fast_machine_with_large_layers();
  config.schedule.activations = std::nullopt;
  config.schedule.activation_slots = 9 * 6;
  config.optimizer.interleave = 0;
  RunConfig nothing = config;
  nothing.schedule.activations = KeepLevel::kRecompute;
  // The rule believes in a link that compute of this speed leaves idle.
  config.hardware.peak_tflops = 1e-5;
  config.hardware.link_gbs = 1e-2;
  const Budget budget{.device_limit = make_setup(nothing, 0, 1, {}).device_bytes() + 64 * kKiB,
                      .host_limit = kGiB};
  REQUIRE(make_setup(config, 0, 1, budget).spilled_text() != "0 boundaries");
  config.hardware.product_tflops = 0.65e-5;
  const Placement slow_compute = choose(config, budget);
  REQUIRE(choice_of(slow_compute, "schedule.spill") != nullptr);
  CHECK(!slow_compute.setup.spill);
  CHECK(slow_compute.setup.spilled_text() == make_setup(config, 0, 1, budget).spilled_text());
  config.hardware.product_tflops = 1e12;
  config.memory.spill_limit = ByteSize{kGiB};
  const Placement slow_link = choose(config, budget);
  CHECK(slow_link.setup.spill == KeepLevel::kRecompute);
  CHECK(slow_link.setup.spilled_text() == "0 boundaries");
  CHECK(choice_of(slow_link, "schedule.spill")->other_s == predicted_s(config, budget));
  CHECK(choose(reloaded(resolve(config, slow_link.setup)), budget).choices.empty());
}

TEST_CASE("every cell spills up to a level that gains more than the rule's, within the limits") {
  RunConfig config = config_file("llama-13b.json", {"model.num_hidden_layers=8"});
  const Budget budget{.device_limit = 12 * kGiB, .host_limit = 100 * kGiB, .peak_tflops = 989.4};
  const auto plan = [&](const RunConfig& c) { return choose_on_h200(c, budget); };
  const Placement far = plan(config);
  CHECK(far.setup.spill == KeepLevel::kSelective);
  CHECK(Room(budget, config.memory).keeps_host_reserve(far.setup.use()));
  const RunConfig resolved = resolve(config, far.setup);
  CHECK(config_hash(resolve(resolved, plan(reloaded(resolved)).setup)) == config_hash(resolved));
  config.memory.spill_limit = ByteSize{kGiB};
  CHECK(!plan(config).setup.spill);
}

Budget large_host(std::size_t device_limit) {
  return {.device_limit = device_limit, .host_limit = 200 * kGiB, .peak_tflops = 989.4};
}

TEST_CASE("cells spill no more than the limit, whatever else is chosen") {
  RunConfig config = config_file(
      "llama-13b.json", {"model.num_hidden_layers=16", "schedule.sub_batches=12",
                         "hardware.attention_forward_tflops=540",
                         "hardware.attention_backward_tflops=357", "hardware.host_gbs=80"});
  config.memory.spill_limit = ByteSize{32 * kGiB};
  const Placement placement = choose_on_h200(config, large_host(14 * kGiB));
  CHECK(placement.setup.choices.interleave > 0.0);
  CHECK(placement.setup.plan.bytes(Space::kPinned, "kept.spilled") <= 32 * kGiB);
}

TEST_CASE("no share of interleaved layers that is named is predicted to be much faster", "[long]") {
  RunConfig config =
      config_file("llama-13b.json", {"model.num_hidden_layers=8", "schedule.sub_batches=8"});
  const auto step_s = [](const RunConfig& c) {
    const Placement placement = choose_on_h200(c, large_host(12 * kGiB));
    return predict_step_s(placement.setup, "NVIDIA H200").value();
  };
  for (const double host_gbs : {50.0, 100.0}) {
    config.hardware.host_gbs = host_gbs;
    config.optimizer.interleave = std::nullopt;
    const double chosen_s = step_s(config);
    for (const double share : {0.0, 0.25, 0.5, 0.75}) {
      INFO(host_gbs << " GB/s, " << share);
      config.optimizer.interleave = share;
      CHECK(kWorthChanging * chosen_s < step_s(config));
    }
  }
}

TEST_CASE("rules decide where the device is unknown") {
  RunConfig config = slow_host();
  CHECK(choose(config).choices.size() == 1);
  config.hardware.product_tflops = std::nullopt;
  const Placement placement = choose(config);
  CHECK(placement.choices.empty());
  CHECK(config_hash(resolve(config, placement.setup)) ==
        config_hash(resolve(config, make_setup(config, choices_by_rule(config), {}))));
}

TEST_CASE("all ranks of a run choose the same by predicted time") {
  RunConfig config = slow_host();
  config.hardware.collective_gbs = 1e12;
  config.hardware.nic_gbs = 1e12;
  const auto chosen = [&](const GroupPlace& place) {
    return choose_placement(config,
                            {.place = place, .budget = {.ranks_on_host = 2}, .device = kNewDevice});
  };
  for (const auto& [first, last] :
       {std::pair<GroupPlace, GroupPlace>{{.ranks = 4}, {.rank = 3, .ranks = 4}},
        {{.ranks = 2, .replicas = 2}, {.rank = 1, .ranks = 2, .replica = 1, .replicas = 2}}}) {
    const Placement one = chosen(first), other = chosen(last);
    CHECK(one.setup.choices.interleave > 0.0);
    CHECK(one.to_string() == other.to_string());
    CHECK(config_hash(resolve(config, one.setup)) == config_hash(resolve(config, other.setup)));
  }
}

TEST_CASE("a resolved config holds what was chosen for a planned GPU, and is chosen again") {
  RunConfig config = config_file("llama-7b.json", {"schedule.sub_batches=4"});
  const Budget budget{.device_limit = config.memory.device_limit->bytes, .peak_tflops = 989.4};
  const auto plan = [&](const RunConfig& c) { return choose_on_h200(c, budget); };
  const Placement first = plan(config);
  CHECK(first.setup.choices.interleave > 0.0);
  CHECK(first.setup.device_bytes() <= *budget.device_limit);
  const RunConfig resolved = resolve(config, first.setup);
  CHECK(config_hash(resolve(config, plan(config).setup)) == config_hash(resolved));
  const Placement again = plan(reloaded(resolved));
  CHECK(again.choices.empty());
  CHECK(config_hash(resolve(resolved, again.setup)) == config_hash(resolved));
  CHECK(again.setup.plan.to_string() == first.setup.plan.to_string());
  config.hardware.link_gbs = 1;
  CHECK(plan(config).setup.choices.interleave == 0.0);
}
