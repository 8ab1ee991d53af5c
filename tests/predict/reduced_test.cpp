// Tests predictions of steps too large to be recorded whole: they are compared with those of the
// whole step, where that is feasible, for runs that are bound by different things.

#include <sys/resource.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "predict/paper_machines.h"
#include "strata/plan/choose_placement.h"
#include "strata/predict/prediction.h"
#include "support/catch.h"
#include "support/predictions.h"

namespace strata::test {
namespace {

constexpr const char* kDevice = "NVIDIA H200";
constexpr double kEverything = std::numeric_limits<double>::infinity();

Budget planned_budget(const RunConfig& config) {
  Budget budget;
  budget.device_overhead = estimated_device_overhead(BackendChoice::kCuda);
  budget.host_overhead = estimated_host_overhead(BackendChoice::kCuda);
  budget.peak_tflops = 989.4;  // of an H200
  if (config.memory.device_limit) budget.device_limit = config.memory.device_limit->bytes;
  if (config.memory.host_limit) budget.host_limit = config.memory.host_limit->bytes;
  return budget;
}

struct Shape {
  const char* file;
  std::vector<std::string> sets;
};

}  // namespace

TEST_CASE("a reduced step is predicted within 1 % of the whole one", "[long]") {
  const Shape shapes[] = {
      {"llama-7b.json", {}},
      {"llama-7b.json", {"schedule.sub_batches=64"}},
      {"llama-7b.json",
       {"schedule.sub_batches=64", "optimizer.timing=speculative", "memory.host_limit=512GiB"}},
      {"llama-7b.json", {"schedule.sub_batches=64", "optimizer.interleave=0.5"}},
      {"llama-7b.json", {"schedule.sub_batches=16", "hardware.link_gbs=6"}},
      {"llama-7b.json", {"schedule.sub_batches=64", "schedule.activation_slots=2"}},
      {"llama-7b.json",
       {"schedule.sub_batches=64", "schedule.activations=recompute", "schedule.spill=attention_out",
        "schedule.activation_slots=65"}},
      {"llama-7b.json",
       {"schedule.sub_batches=2", "schedule.passes=24", "schedule.gradient_sums=host"}},
      {"llama-7b.json",
       {"schedule.sub_batches=2", "schedule.passes=24", "schedule.gradient_sums=device",
        "memory.device_limit=null"}},
      {"llama-1.3b.json",
       {"schedule.sub_batches=8", "schedule.passes=12", "optimizer.timing=on_arrival",
        "optimizer.grad_clip=null"}},
      {"llama-1.3b.json",
       {"schedule.sub_batches=64", "data.sequence_length=256", "hardware.host_gbs=3"}},
      {"llama-1.3b.json",
       {"schedule.sub_batches=64", "data.sequence_length=256", "hardware.link_gbs=2"}},
      {"llama-1.3b.json",
       {"schedule.sub_batches=64", "data.sequence_length=128", "schedule.activation_slots=65"}},
      {"llama-1.3b.json",
       {"schedule.sub_batches=2", "schedule.passes=40", "data.sequence_length=256",
        "hardware.host_gbs=20"}},
      {"llama-1.3b.json",
       {"schedule.sub_batches=2", "schedule.passes=40", "data.sequence_length=256",
        "schedule.gradient_sums=host"}},
      {"llama-1.3b.json",
       {"schedule.sub_batches=2", "schedule.passes=40", "data.sequence_length=256",
        "optimizer.timing=on_arrival", "optimizer.grad_clip=null", "optimizer.interleave=0.5"}},
      {"llama-1.3b.json",
       {"schedule.sub_batches=64", "schedule.activations=recompute", "schedule.spill=full",
        "schedule.activation_slots=65"}},
      {"llama-1.3b.json",
       {"schedule.sub_batches=64", "schedule.activations=recompute", "schedule.spill_dtype=int8"}},
      {"llama-1.3b.json",
       {"schedule.sub_batches=128", "schedule.activations=recompute", "schedule.spill_dtype=int8",
        "hardware.link_gbs=4"}},
      {"llama-70b.json", {"schedule.sub_batches=4", "schedule.passes=12"}},
      {"llama-70b.json",
       {"schedule.sub_batches=4", "schedule.passes=4", "schedule.activation_slots=20",
        "hardware.link_gbs=10"}},
      {"llama-1.3b.json",
       {"model.num_hidden_layers=200", "data.sequence_length=512", "schedule.sub_batches=2",
        "schedule.passes=8", "hardware.host_gbs=20"}},
      {"llama-7b.json",
       {"model.num_hidden_layers=256", "schedule.sub_batches=4", "optimizer.timing=speculative",
        "memory.host_limit=1200GiB"}},
      {"llama-7b.json",
       {"model.num_hidden_layers=256", "schedule.sub_batches=4", "optimizer.timing=on_arrival",
        "optimizer.grad_clip=null"}},
  };
  for (const Shape& shape : shapes) {
    CAPTURE(shape.file, shape.sets);
    const RunConfig config = config_file(shape.file, shape.sets);
    const Setup setup = make_setup(config, 0, 1, planned_budget(config));
    const double whole_s = predict_step_s(setup, kDevice, kEverything).value();
    const double reduced_s = predict_step_s(setup, kDevice, 0).value();
    CHECK(std::abs(reduced_s - whole_s) <= 0.01 * whole_s);
  }
}

TEST_CASE("a reduced step of several ranks is predicted within 1 % of the whole one", "[long]") {
  struct Ranks {
    GroupPlace place;
    Shape shape;
  };
  const Ranks runs[] = {
      {{.ranks = 8}, {"llama-7b.json", {"schedule.sub_batches=64"}}},
      {{.ranks = 8, .replicas = 8},
       {"llama-7b.json",
        {"schedule.sub_batches=2", "schedule.passes=24", "schedule.gradient_sums=device",
         "hardware.nic_gbs=50", "memory.device_limit=null"}}},
      {{.ranks = 64},
       {"llama-70b.json",
        {"schedule.sub_batches=4", "schedule.passes=12", "hardware.nic_gbs=12.5"}}},
      {{.ranks = 16},
       {"llama-7b.json",
        {"model.num_hidden_layers=256", "schedule.sub_batches=4", "optimizer.timing=on_arrival",
         "optimizer.grad_clip=null", "hardware.nic_gbs=50"}}}};
  for (const Ranks& run : runs) {
    CAPTURE(run.shape.file, run.shape.sets, run.place.world());
    const RunConfig config = config_file(run.shape.file, run.shape.sets);
    Budget budget = planned_budget(config);
    budget.ranks_on_host = 8;
    const PlannedRank planned{.place = run.place, .budget = budget, .device = kDevice};
    const Setup setup = make_setup(config, choices_by_rule(config), planned);
    const double whole_s = predict_step_s(setup, kDevice, kEverything).value();
    const double reduced_s = predict_step_s(setup, kDevice, 0).value();
    CHECK(std::abs(reduced_s - whole_s) <= 0.01 * whole_s);
  }
}

namespace {

/// A 405B, whose layers have 200 chunks.
const std::vector<std::string> kWidest = {
    "model.num_hidden_layers=126", "model.hidden_size=16384",       "model.intermediate_size=53248",
    "model.vocab_size=128256",     "model.num_attention_heads=128", "memory.device_limit=130GiB",
    "schedule.passes=64",          "optimizer.timing=on_arrival",   "optimizer.grad_clip=null"};

}  // namespace

TEST_CASE("a plan of any size records a bounded number of submissions", "[long]") {
  const Shape shapes[] = {
      {"llama-7b.json", {"schedule.sub_batches=57"}},  // the largest that is predicted whole
      {"llama-7b.json", {"schedule.sub_batches=58"}},
      {"llama-1.3b.json", {"schedule.sub_batches=1024", "memory.device_limit=null"}},
      {"llama-70b.json", {"schedule.passes=64"}},
      {"llama-70b.json",
       {"schedule.passes=65536", "optimizer.timing=on_arrival", "optimizer.grad_clip=null"}},
      {"llama-7b.json", {"model.num_hidden_layers=1024", "schedule.passes=64"}},
      {"llama-7b.json",
       {"model.num_hidden_layers=1024", "schedule.passes=64", "optimizer.timing=speculative",
        "memory.host_limit=8TiB"}},
      {"llama-7b.json",
       {"model.num_hidden_layers=1024", "schedule.passes=64", "optimizer.timing=on_arrival",
        "optimizer.grad_clip=null"}},
      {"llama-70b.json", kWidest},
  };
  for (const Shape& shape : shapes) {
    CAPTURE(shape.file, shape.sets);
    const RunConfig config = config_file(shape.file, shape.sets);
    const PlannedRank planned{{}, planned_budget(config), kDevice};
    int setups = 0;
    int predictions = 0;
    const Placement placement = choose_placement(
        config, {.setup =
                     [&](const PlanChoices& choices) {
                       ++setups;
                       return make_setup(config, choices, planned);
                     },
                 // None is faster than another, so that no list ends early.
                 .step_s = [&](const Setup&) { return static_cast<double>(++predictions > 0); }});
    CHECK(setups <= 17);
    CHECK(predictions <= 17);
    CHECK(predict(placement.setup, kDevice).records <= 500'000);
  }
}

// The bound is that of a release build.
#if defined(NDEBUG) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a plan of any size takes bounded memory", "[long]") {
  const Shape shapes[] = {
      {"llama-1.3b.json",
       {"schedule.sub_batches=1024", "data.sequence_length=64", "memory.device_limit=16GiB"}},
      {"llama-70b.json", {"schedule.passes=64"}},
      {"llama-70b.json", {"schedule.sub_batches=1024", "memory.device_limit=null"}},
      {"llama-70b.json", kWidest},
      {"llama-7b.json",
       {"model.num_hidden_layers=1024", "schedule.passes=64", "optimizer.timing=on_arrival",
        "optimizer.grad_clip=null"}},
  };
  for (const Shape& shape : shapes) {
    CAPTURE(shape.file, shape.sets);
    const RunConfig config = config_file(shape.file, shape.sets);
    const Placement placement = choose_placement(config, {{}, planned_budget(config), kDevice});
    const Prediction p = predict(placement.setup, kDevice);
    CHECK(p.reduced);
    CHECK(p.records <= 500'000);
  }
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  CHECK(used.ru_maxrss < 400 * 1024);  // KiB, of this whole test program
}
#endif

}  // namespace strata::test
