// The machine that only records is the machine that trains: both record the same submissions. What
// is predicted from the records is compared with machines of which all but one part is fast.

#include "strata/predict/prediction.h"
#include "strata/predict/utilisation.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "predict/paper_machines.h"
#include "strata/base/bytes.h"
#include "strata/base/host_memory.h"
#include "strata/engine/training_engine.h"
#include "strata/model/families.h"
#include "strata/predict/known_rates.h"
#include "support/catch.h"
#include "support/predictions.h"
#include "support/thread_ranks.h"
#include "support/tiny_run.h"

namespace {

using namespace strata;
using test::config_file;
using test::fast_machine;
using test::kNewDevice;

constexpr int kSteps = 3;

struct Case {
  std::string name;
  RunConfig config;
};

/// Returns every way of placing, moving and updating that changes what is submitted.
std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const char* name, const auto& change) {
    Case c{name, test::tiny_config()};
    change(c.config);
    all.push_back(std::move(c));
  };
  add("plain", [](RunConfig&) {});
  add("codes", [](RunConfig& c) {
    c.run.dtype = DType::kBF16;
    c.run.products = Products::kFp8All;
    c.run.products_bf16 = {"layers.1", "down"};
  });
  add("bf16, kept", [](RunConfig& c) {
    c.run.dtype = DType::kBF16;
    c.optimizer.gradient_dtype = DType::kBF16;
    c.optimizer.moment_dtype = DType::kBF16;
    c.schedule.activations = KeepLevel::kSelective;
  });
  add("short rings", [](RunConfig& c) {
    c.schedule.activation_slots = 3;
    c.schedule.weight_slots = 2;
  });
  add("spilled", [](RunConfig& c) {
    c.schedule.activations = KeepLevel::kRecompute;
    c.schedule.spill = KeepLevel::kFull;
    c.schedule.spill_slots = 2;
  });
  add("boundaries in int8", [](RunConfig& c) {
    c.run.dtype = DType::kBF16;
    c.schedule.activations = KeepLevel::kAttention;
    c.schedule.spill_dtype = BoundaryForm::kInt8;
  });
  add("passes, summed on the host", [](RunConfig& c) {
    c.schedule.passes = 2;
    c.schedule.sub_batches = 3;
  });
  add("passes, summed on the device", [](RunConfig& c) {
    c.schedule.passes = 2;
    c.schedule.sub_batches = 3;
    c.schedule.gradient_sums = GradientSums::kDevice;
  });
  add("some resident", [](RunConfig& c) { c.schedule.resident_units = 2; });
  add("all resident, tied", [](RunConfig& c) {
    c.model.llama.tie_word_embeddings = true;
    c.schedule.resident_units = 5;
  });
  add("on arrival, in a ring", [](RunConfig& c) {
    c.optimizer.grad_clip = std::nullopt;
    c.optimizer.timing = UpdateTiming::kOnArrival;
    c.optimizer.gradient_ring = 2;
    c.schedule.resident_units = 1;
  });
  add("interleaved", [](RunConfig& c) {
    c.optimizer.interleave = 0.5;
    c.optimizer.grad_clip = std::nullopt;
    c.optimizer.timing = UpdateTiming::kOnArrival;
  });
  add("interleaved, before use", [](RunConfig& c) { c.optimizer.interleave = 0.5; });
  add("speculative, interleaved", [](RunConfig& c) {
    c.optimizer.interleave = 0.5;
    c.optimizer.grad_clip = 1.0;
    c.optimizer.timing = UpdateTiming::kSpeculative;
    c.optimizer.deferred_units = 1;
  });
  add("muon", [](RunConfig& c) { c.optimizer.kind = OptimizerKind::kMuon; });
  add("masked documents", [](RunConfig& c) { c.data.document_mask = true; });
  return all;
}

bool same(const Cost& a, const Cost& b) {
  return a.kind == b.kind && a.flops == b.flops && a.bytes == b.bytes && a.extents == b.extents &&
         a.coded == b.coded;
}

/// Returns the canonical trace. A dry run knows no data, so its tables of documents are as long as
/// they may become: where there are such, the length that attention reads of its table is left out.
std::string canonical_of(const Recorder& recorder, const RunConfig& config) {
  if (!config.data.document_mask) return recorder.canonical();
  std::istringstream text(recorder.canonical());
  std::string without;
  for (std::string line; std::getline(text, line); without += line + '\n') {
    int table = 0;  // the how manieth tensor that is read
    if (line.find(" attention_forward ") != std::string::npos) table = 4;   // after q, k, v
    if (line.find(" attention_backward ") != std::string::npos) table = 7;  // d_o, q, k, v, o, lse
    std::size_t at = 0;
    for (int i = 0; i < table; ++i) at = line.find(" reads ", at + 1);
    if (table > 0) line.erase(line.find(':', at), line.find(' ', at + 7) - line.find(':', at));
  }
  return without;
}

/// Compares what a run on the cpu submits with what a dry run of its setup does.
void compare(const RunConfig& config, Ranks& ranks) {
  const bool left = config.optimizer.interleave > 0.0 ||  // updates that no load asked for
                    config.optimizer.kind == OptimizerKind::kMuon;
  Recorder ran, dry;
  test::TinyEngine engine(config, ranks, {.trace = &ran});
  ran.start();
  for (int step = 0; step < kSteps; ++step) engine.submit(step, config.optimizer.lr);
  engine.synchronize();
  ran.stop();
  const std::vector<std::size_t> ends = record_steps(engine.setup(), kSteps, dry);
  REQUIRE(ends.size() == kSteps);
  CHECK(ends[0] < ends[1]);
  CHECK((ends.back() < dry.records().size()) == left);
  CHECK(canonical_of(dry, config) == canonical_of(ran, config));
  REQUIRE(dry.records().size() == ran.records().size());
  std::size_t other_costs = 0;
  for (std::size_t i = 0; i < ran.records().size(); ++i) {
    if (!same(ran.records()[i].what.cost, dry.records()[i].what.cost)) ++other_costs;
  }
  CHECK(other_costs == 0);
  CHECK(dry.races(1).empty());
}

/// Returns the lines of the canonical trace that are of this lane.
std::vector<std::string> lines_of(const Recorder& recorder, Lane lane) {
  std::istringstream text(recorder.canonical());
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with(name_of(lane))) lines.push_back(line);
  }
  return lines;
}

std::ptrdiff_t count_of(const std::vector<std::string>& lines, std::string_view name) {
  return std::ranges::count_if(
      lines, [&](const std::string& line) { return line.find(name) != std::string::npos; });
}

Budget budget_of(const RunConfig& config) {
  Budget budget;
  if (config.memory.device_limit) budget.device_limit = config.memory.device_limit->bytes;
  return budget;
}

Prediction predict_on_paper(const RunConfig& config) {
  return predict(make_setup(config, 0, 1, {}), kNewDevice);
}

double busy_s(const std::vector<LaneReport>& lanes, std::string_view name) {
  for (const LaneReport& lane : lanes) {
    if (lane.lane == name) return lane.busy_s;
  }
  return -1;
}

}  // namespace

TEST_CASE("a dry run submits what a run on the cpu submits") {
  for (const Case& c : cases()) {
    INFO(c.name);
    const auto self = make_self_ranks();
    compare(c.config, *self);
  }
}

TEST_CASE("a dry run submits what each of several ranks submits") {
  for (const auto& [count, on_host] : {std::pair(2, 0), std::pair(4, 0), std::pair(4, 2)}) {
    const auto compare = [](Ranks& ranks) {
      static std::mutex one_at_a_time;  // of checks; ranks talk to each other outside of them
      RunConfig config = test::tiny_config();
      config.run.shard_group = ShardGroup::kNode;
      Recorder ran, dry;
      test::TinyEngine engine(config, ranks, {.trace = &ran});
      ran.start();
      for (int step = 0; step < kSteps; ++step) engine.submit(step, config.optimizer.lr);
      engine.synchronize();
      ran.stop();
      record_steps(engine.setup(), kSteps, dry);
      const std::lock_guard lock(one_at_a_time);
      CHECK(dry.canonical() == ran.canonical());
    };
    run_ranks(count, compare, on_host);
  }
}

TEST_CASE("a process alone records on the comm lane what a rank of several submits there",
          "[long]") {
  for (const int count : {2, 4}) {
    for (Case& c : cases()) {
      INFO(c.name << ", " << count << " ranks");
      c.config.run.steps = kSteps;
      Recorder ran, dry;
      test::trace_run(ran, c.config, count);
      record_steps(make_setup(c.config, 0, count, {.device_is_host = true}), kSteps, dry);
      const std::vector<std::string> collectives = lines_of(dry, Lane::kComm);
      CHECK(count_of(collectives, "all_gather") > 0);
      CHECK(count_of(collectives, "reduce_scatter") > 0);
      CHECK(collectives == lines_of(ran, Lane::kComm));
      CHECK(canonical_of(dry, c.config) == canonical_of(ran, c.config));
    }
  }
}

TEST_CASE("a dry run of a model larger than memory takes none") {
  const RunConfig config = config_file("llama-70b.json", {"schedule.sub_batches=1"});
  const auto self = make_self_ranks();
  const Setup setup = make_setup(config, 0, 1, budget_of(config));
  const std::size_t before = resident_bytes();
  const Backend backend = make_backend(BackendKind::kDry, {});
  RankGroups groups(*self, ShardGroup::kAll);
  GroupCollectives collectives = make_group_collectives(groups, *backend.device);
  TrainingEngine engine(setup, {backend, *self, collectives},
                        [](const StepOutcome&, std::int64_t) {});
  engine.submit(0, 1e-4, [](int, const PassBuffers&) { return std::int64_t{1}; });
  const std::size_t after = resident_bytes();
  const std::size_t model = setup.plan.total(Space::kDevice) + setup.plan.host_total();
  CHECK(after < before + model / 1000);
  CHECK(backend.device->info().backend == "dry");
}

TEST_CASE("a step of 70B parameters is predicted from few records, and without the memory") {
  const RunConfig config = config_file("llama-70b.json");
  const Prediction p = predict(make_setup(config, 0, 1, budget_of(config)), "NVIDIA H200");
  REQUIRE(p.unknown.empty());
  CHECK(p.records > 0);
  CHECK(p.records <= 500'000);  // that many take seconds
  // No faster than its FLOPs at the peak, and a step is what its lanes did.
  const double flops = flops_per_token(spec_of(config.model.llama), config.data.sequence_length);
  CHECK(p.step_s > flops * static_cast<double>(config.step_tokens(1)) / 989.4e12);
  double exposed_s = 0;
  for (const LaneReport& lane : p.lanes) exposed_s += lane.exposed_s;
  CHECK(std::abs(busy_s(p.lanes, "compute") + exposed_s - p.step_s) < 1e-3 * p.step_s);
  double shares = 0;
  for (const Prediction::Part& part : p.critical) shares += part.share;
  CHECK(std::abs(shares - 1) < 1e-9);
}

TEST_CASE("the FLOPs of a recorded step are those that utilisation counts") {
  RunConfig config = fast_machine();
  config.model.llama.tie_word_embeddings = true;
  config.schedule.passes = 2;
  Recorder recorder;
  record_steps(make_setup(config, 0, 1, {}), 1, recorder);
  double flops = 0;
  for (const TraceRecord& record : recorder.records()) {
    // Attention's backward computes scores again: five products, of which four are counted.
    const bool backward = record.what.cost.kind == CostKind::kAttentionBackward;
    flops += record.what.cost.flops * (backward ? 0.8 : 1.0);
  }
  const double counted = flops_per_token(spec_of(config.model.llama), config.data.sequence_length) *
                         static_cast<double>(config.step_tokens(1));
  CHECK(std::abs(flops / counted - 1) < 1e-12);
}

TEST_CASE("with adapters the FLOPs of a recorded step are those counted, and A x once more") {
  RunConfig config = fast_machine();
  config.adapter = AdapterConfig{.rank = 3, .targets = {"q_proj", "v_proj", "down_proj"}};
  if (GENERATE(false, true)) config.adapter->modules_to_save = {"embed_tokens", "lm_head"};
  config.schedule.activations = KeepLevel::kFull;
  Recorder recorder;
  const Setup setup = make_setup(config, 0, 1, {});
  record_steps(setup, 1, recorder);
  double flops = 0;
  for (const TraceRecord& record : recorder.records()) {
    const bool backward = record.what.cost.kind == CostKind::kAttentionBackward;
    flops += record.what.cost.flops * (backward ? 0.8 : 1.0);
  }
  const LlamaConfig& m = config.model.llama;
  const auto again = static_cast<double>(  // which backward computes from x
      2 * m.num_hidden_layers * 3 * (2 * m.hidden_size + m.intermediate_size));
  const double counted = (flops_per_token(setup.spec, config.data.sequence_length) + again) *
                         static_cast<double>(config.step_tokens(1));
  CHECK(std::abs(flops / counted - 1) < 1e-12);
}

TEST_CASE("products of codes take less time, and those that stay in bf16 as much as before") {
  RunConfig config = fast_machine();
  config.run.dtype = DType::kBF16;
  config.hardware.product_tflops = 1e-6;  // all else takes next to nothing
  config.schedule.activations = KeepLevel::kFull;
  const auto step_s = [&](Products products, std::vector<std::string> bf16 = {}) {
    config.run.products = products;
    config.run.products_bf16 = std::move(bf16);
    return predict_on_paper(config).step_s;
  };
  const LlamaConfig& m = config.model.llama;
  const LayerSpec layer = spec_of(m).common();
  const auto layers = static_cast<double>(m.num_hidden_layers);
  const double flops =
      layer.linear(LinearId::kQkv).flops() + layer.linear(LinearId::kAttentionOut).flops() +
      layer.linear(LinearId::kGateUp).flops() + layer.linear(LinearId::kDown).flops();
  const double plain_s = step_s(Products::kPlain);
  // A linear has three products of so many FLOPs a token.
  const auto check = [&](double codes_s, double products, double of_layers, double of_token) {
    const double tokens = static_cast<double>(config.step_tokens(1));
    const double saved_s = products * of_layers * of_token * tokens * (1 - 1 / 1.75) / 1e6;
    CHECK(std::abs((plain_s - codes_s) / saved_s - 1) < 0.01);
  };
  check(step_s(Products::kFp8), 2, layers, flops);
  check(step_s(Products::kFp8All), 3, layers, flops);
  check(step_s(Products::kFp8All, {"layers.1"}), 3, layers - 1, flops);
  check(step_s(Products::kFp8, {"qkv", "attention_out", "gate_up"}), 2, layers,
        layer.linear(LinearId::kDown).flops());
}

TEST_CASE("products that are slow enough are the whole step") {
  RunConfig config = fast_machine();
  config.hardware.product_tflops = 1e-6;
  const Prediction p = predict_on_paper(config);
  REQUIRE(p.unknown.empty());
  const LlamaConfig& m = config.model.llama;
  const double attention = 6.0 * static_cast<double>(m.num_hidden_layers * m.num_attention_heads *
                                                     m.head_size() * config.data.sequence_length);
  const double products = flops_per_token(spec_of(m), config.data.sequence_length) - attention;
  const double expected = products * static_cast<double>(config.step_tokens(1)) / 1e6;
  CHECK(std::abs(p.step_s / expected - 1) < 0.01);
  CHECK(p.critical.front().name == "compute");
  CHECK(p.critical.front().share > 0.99);
  CHECK(!p.mfu.has_value());
}

TEST_CASE("a link that is slow enough is the whole step") {
  RunConfig config = fast_machine();
  config.schedule.sub_batches = 1;
  const double fast = predict_on_paper(config).step_s;
  config.hardware.link_gbs = 1e-5;
  const Prediction p = predict_on_paper(config);
  CHECK(p.step_s > 10 * fast);
  CHECK((p.critical.front().name == "weights_in" || p.critical.front().name == "out"));
  config.hardware.link_gbs = 0.5e-5;
  CHECK(std::abs(predict_on_paper(config).step_s / p.step_s - 2) < 0.05);
}

TEST_CASE("updates of a slow host are hidden as their timing says") {
  RunConfig before_use = fast_machine();
  before_use.hardware.host_gbs = 1e-3;
  before_use.hardware.product_tflops = 5e-5;
  RunConfig on_arrival = before_use;
  on_arrival.optimizer.grad_clip = std::nullopt;
  on_arrival.optimizer.timing = UpdateTiming::kOnArrival;
  const Prediction early = predict_on_paper(on_arrival);
  const Prediction late = predict_on_paper(before_use);
  CHECK(early.step_s < late.step_s);
  // Neither order can hide more than the longer of the two.
  CHECK(early.step_s >=
        0.999 * std::max(busy_s(early.lanes, "compute"), busy_s(early.lanes, "host")));
}

TEST_CASE("a speculative step is predicted as one that clips nothing") {
  RunConfig config = fast_machine();
  config.hardware.host_gbs = 1e-3;
  const double late_s = busy_s(predict_on_paper(config).lanes, "host");
  config.optimizer.timing = UpdateTiming::kSpeculative;
  config.optimizer.deferred_units = 0;
  const double early_s = busy_s(predict_on_paper(config).lanes, "host");
  // Weight, low half and moments are read and written once more, and nothing is undone.
  double parameters = 0;
  const Setup whole = make_setup(config, 0, 1, {});
  for (const Block& block : whole.model->blocks) {
    parameters += static_cast<double>(block.elements);
  }
  const double copies_s =
      24 * parameters /
      (1e6 * operator_share(known_rates("", config.hardware).rates, "save_state").host);
  CHECK(std::abs((early_s - late_s) / copies_s - 1) < 0.01);
}

TEST_CASE("rates found in traced work are those with which it ran") {
  RunConfig config = fast_machine();
  HardwareSection& given = config.hardware;  // slow: starts do not count
  given.product_tflops = 3e-6;
  given.attention_forward_tflops = 2e-6;
  given.attention_backward_tflops = 1e-6;
  given.device_gbs = 4e-3;
  given.host_gbs = 5e-3;
  given.link_gbs = 1e3;
  const PredictedTrace traced = predict_trace(make_setup(config, 0, 1, {}), kNewDevice);
  const HardwareSection found =
      measured_rates(traced.work, config.data.sequence_length, config.model.llama.head_size());
  const auto same_rate = [](const std::optional<double>& a, const std::optional<double>& b) {
    REQUIRE(a.has_value());
    CHECK(std::abs(*a / *b - 1) < 0.01);
  };
  same_rate(found.product_tflops, given.product_tflops);
  same_rate(found.attention_forward_tflops, given.attention_forward_tflops);
  same_rate(found.attention_backward_tflops, given.attention_backward_tflops);
  same_rate(found.host_gbs, given.host_gbs);
  // Work that waits for a kernel of the out lane counts as if it ran.
  REQUIRE(found.device_gbs.has_value());
  CHECK(*found.device_gbs <= *given.device_gbs);
  double wait_s = 0, moved_s = 0;
  for (const WorkReport& work : traced.work) {
    if (work.kind != CostKind::kMemory) continue;
    if (work.lane == "out") wait_s += work.busy_s;
    if (work.lane == "compute") moved_s += work.busy_s;
  }
  CHECK(*found.device_gbs >= *given.device_gbs * (1 - wait_s / moved_s));
  CHECK(!measured_rates({}, 1, 1).product_tflops.has_value());
}

TEST_CASE("attention's backward is predicted as it ran in steps of an 8B, within 2 %") {
  struct Run {
    std::int64_t length;
    double tflops;
  };
  // Work of traced steps, docs/measurements/prediction.md.
  constexpr Run kRuns[] = {{4096, 356.3}, {16384, 413.2}, {65536, 457.4}, {131072, 478.4}};
  const Rates rates = known_rates("NVIDIA H200", {}).rates;
  for (const Run& run : kRuns) {
    INFO("rows of " << run.length);
    const double share = attention_share(rates, CostKind::kAttentionBackward, run.length, 128);
    CHECK(std::abs(rates.attention_backward_tflops * share / run.tflops - 1) < 0.02);
  }
}

TEST_CASE("steps of an 8B on rows of 65,536 and 131,072 tokens are predicted within 4 %") {
  struct Run {
    const char* length;
    double step_s;
    double out_s;  ///< that the out lane is busy in traced steps
  };
  constexpr Run kRuns[] = {{"65536", 12.956, 9.555}, {"131072", 41.970, 8.607}};
  for (const Run& run : kRuns) {
    INFO("rows of " << run.length);
    const RunConfig config = config_file(
        "llama3-8b.json",
        {std::string("data.sequence_length=") + run.length, "model.max_position_embeddings=131072",
         "schedule.rows=1", "schedule.sub_batches=1", "optimizer.grad_clip=null",
         "optimizer.timing=on_arrival", "optimizer.moment_dtype=bf16", "checkpoint.at_end=false"});
    const Budget budget{.device_limit = std::size_t{135} * kGiB + 630 * kMiB,
                        .device_overhead = estimated_device_overhead(BackendChoice::kCuda),
                        .host_limit = std::size_t{110} * kGiB,
                        .host_overhead = estimated_host_overhead(BackendChoice::kCuda),
                        .peak_tflops = 989.4,
                        .link_gbs = 50};
    const Setup setup = make_setup(config, 0, 1, budget);
    const Prediction p = predict(setup, "NVIDIA H200");
    REQUIRE(p.unknown.empty());
    CHECK(std::abs(p.step_s / run.step_s - 1) < 0.04);
    CHECK(std::abs(busy_s(predict_trace(setup, "NVIDIA H200").lanes, "out") / run.out_s - 1) <
          0.04);
  }
}

TEST_CASE("what a missed step does again counts nothing for the host's rate") {
  const WorkReport update{.lane = std::string(name_of(Lane::kHost)),
                          .name = std::string(AdamW::kName),
                          .bytes = 1e9,
                          .count = 10,
                          .busy_s = 0.1};
  WorkReport again = update;
  again.kind = CostKind::kRare;
  again.bytes = 0;
  const auto host_gbs = [](const std::vector<WorkReport>& work) {
    return measured_rates(work, 4096, 128).host_gbs.value();
  };
  CHECK(std::abs(host_gbs({update}) / 100 - 1) < 2e-3);  // starts are not counted
  CHECK(host_gbs({update, again}) == host_gbs({update}));
}

/// Two layers on two ranks, of which nothing is slow but collectives.
RunConfig slow_collectives() {
  RunConfig config = fast_machine();
  config.model.llama.num_hidden_layers = 2;
  config.model.llama.hidden_size = 64;
  config.model.llama.intermediate_size = 256;
  config.schedule.sub_batches = 1;
  config.schedule.passes = 1;
  config.optimizer.interleave = 0;
  config.optimizer.deferred_units = 0;
  config.hardware.collective_gbs = 1e-3;
  return config;
}

TEST_CASE("collectives that are slow enough are the whole step") {
  const RunConfig config = slow_collectives();
  const Setup setup = make_setup(config, 0, 2, {.ranks_on_host = 2});
  const Prediction p = predict(setup, kNewDevice);
  REQUIRE(p.unknown.empty());
  Recorder recorder;
  record_steps(setup, 1, recorder);
  // Every rank sends half of the buffer to the other: weights in bf16 as often as they are loaded,
  // each gradient once in f32. Each collective has a start of 0.1 ms.
  double gathered = 0, scattered = 0, starts = 0;
  for (const TraceRecord& record : recorder.records()) {
    if (record.by_submitter || record.what.kind != SubmissionKind::kCollective) continue;
    const auto bytes = static_cast<double>(record.what.accesses.writes.front().bytes);
    (record.what.name == "all_gather" ? gathered : scattered) += bytes;
    starts += 1;
  }
  double padded = 0;
  for (const Block& block : setup.model->blocks) {
    padded += static_cast<double>(block.padded_elements(2));
  }
  CHECK(scattered == 4 * padded);
  CHECK(gathered >= 2 * padded);
  const double expected_s = (gathered + scattered) / 2 / 1e6 + 1e-4 * starts;
  CHECK(p.ranks == 2);
  CHECK(std::abs(busy_s(p.lanes, "comm") / expected_s - 1) < 1e-6);
  CHECK(std::abs(p.step_s / expected_s - 1) < 0.02);
  CHECK(p.critical.front().name == "comm");
  CHECK_THAT(p.to_string(), ContainsSubstring("a rank)") && ContainsSubstring("lane comm") &&
                                ContainsSubstring("2 ranks on 1 host"));
}

TEST_CASE("all ranks predict the same, whichever they are") {
  const RunConfig config = config_file("llama-7b.json", {"model.num_hidden_layers=4"});
  const auto step_s = [&](const GroupPlace& place) {
    const PlannedRank planned{
        .place = place, .budget = {.ranks_on_host = 2}, .device = "NVIDIA H200"};
    return predict_step_s(make_setup(config, choices_by_rule(config), planned), planned.device)
        .value();
  };
  CHECK(step_s({.rank = 0, .ranks = 4}) == step_s({.rank = 3, .ranks = 4}));
  CHECK(step_s({.rank = 0, .ranks = 2, .replica = 0, .replicas = 2}) ==
        step_s({.rank = 1, .ranks = 2, .replica = 1, .replicas = 2}));
}

TEST_CASE("slow NICs cost a shard group of all ranks more than one for each host") {
  RunConfig config =
      config_file("llama-7b.json", {"model.num_hidden_layers=8", "schedule.sub_batches=4",
                                    "schedule.passes=4", "schedule.gradient_sums=device"});
  config.hardware.nic_gbs = 12.5;
  const auto step = [&](const GroupPlace& place) {
    const PlannedRank planned{
        .place = place, .budget = {.ranks_on_host = 4}, .device = "NVIDIA H200"};
    return predict(make_setup(config, choices_by_rule(config), planned), planned.device);
  };
  const Prediction all = step({.ranks = 16});
  const Prediction hosts = step({.ranks = 4, .replicas = 4});
  CHECK(busy_s(all.lanes, "comm") > 2 * busy_s(hosts.lanes, "comm"));
  CHECK(all.step_s > hosts.step_s);
}

TEST_CASE("the mean of a run is that of its steps and of what comes once") {
  Prediction p;
  p.step_s = 2;
  p.once_s = 1;
  CHECK(p.mean_s(4) == 2.25);
}

TEST_CASE("rates are those of the device's row, and given ones win and are named") {
  HardwareSection hardware;
  const KnownRates h200 = known_rates("NVIDIA H200", hardware);
  CHECK(h200.missing.empty());
  CHECK(h200.source == "H200 (measured)");
  CHECK(h200.rates.product_tflops == 687);
  CHECK(h200.rates.link_gbs == 50 / h200.rates.link_both_ways);
  KnownRates rtx = known_rates("NVIDIA GeForce RTX 4090", hardware);
  CHECK(rtx.missing.empty());
  CHECK_THAT(rtx.source, ContainsSubstring("RTX 4090 (datasheet estimates"));
  CHECK_THAT(rtx.source, ContainsSubstring("a host of 60 GB/s, hardware.host_gbs"));
  CHECK(rtx.rates.product_tflops == 150);
  CHECK(rtx.rates.link_gbs < h200.rates.link_gbs / 2);
  hardware.host_gbs = 80;
  hardware.link_gbs = 12;
  rtx = known_rates("NVIDIA GeForce RTX 4090", hardware);
  CHECK(rtx.source ==
        "RTX 4090 (datasheet estimates; as given: hardware.host_gbs, hardware.link_gbs)");
  CHECK(rtx.rates.host_gbs == 80);
  CHECK(rtx.rates.link_gbs == 12 / rtx.rates.link_both_ways);
  CHECK(rtx.rates.product_tflops == 150);
}

TEST_CASE("a predicted utilisation above 1 comes with a warning that names the peak and its key") {
  RunConfig config = fast_machine();
  config.hardware.peak_tflops = 1e-9;
  const Prediction p = predict_on_paper(config);
  REQUIRE(p.mfu.value() > 1);
  CHECK_THAT(p.to_string(), ContainsSubstring("set hardware.peak_tflops"));
  config.hardware.peak_tflops = 1e12;
  CHECK_THAT(predict_on_paper(config).to_string(), !ContainsSubstring("set hardware.peak_tflops"));
}

TEST_CASE("what nobody has measured is not predicted") {
  RunConfig config = test::tiny_config();
  const auto unknown = [&](const char* device) {
    return predict(make_setup(config, 0, 1, {}), device).unknown;
  };
  CHECK(unknown("NVIDIA H200") == "rates are those of bf16");
  config.run.dtype = DType::kBF16;
  CHECK(unknown("NVIDIA H200").empty());
  CHECK(predict(make_setup(config, 0, 2, {}), "NVIDIA H200").unknown.empty());
  config.hardware.host_gbs = 100;
  CHECK(unknown("NVIDIA H100") ==
        "nobody has measured this device; set hardware.product_tflops, "
        "hardware.attention_forward_tflops, hardware.attention_backward_tflops, "
        "hardware.device_gbs");
  CHECK_THAT(unknown(""), ContainsSubstring("name one with --gpu"));
  config.kernels.attention = AttentionKernels::kPortable;
  CHECK_THAT(unknown("NVIDIA H200"), ContainsSubstring("kernels.attention"));
  config.hardware.attention_forward_tflops = 300;
  config.hardware.attention_backward_tflops = 200;
  CHECK(unknown("NVIDIA H200").empty());
}

TEST_CASE("with masks of documents the step without them is predicted as an upper bound") {
  RunConfig config = fast_machine();
  const Prediction whole = predict_on_paper(config);
  CHECK_THAT(whole.to_string(), !ContainsSubstring("at most"));
  config.data.document_mask = true;
  const Prediction masked = predict_on_paper(config);
  REQUIRE(masked.unknown.empty());
  CHECK(masked.step_s == whole.step_s);
  CHECK(masked.tokens_per_s == whole.tokens_per_s);
  CHECK_THAT(masked.to_string(), ContainsSubstring("predicted step: at most ") &&
                                     ContainsSubstring("at least ") &&
                                     ContainsSubstring("data.document_mask"));
}
