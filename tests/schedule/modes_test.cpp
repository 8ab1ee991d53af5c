// Tests every row of the table of modes: its training has the bits of its plain run, its trace has
// no race, what it takes is what was planned, and updates run where and when its rows of blocks
// say. That races are found is tested by leaving out kinds of waits on purpose. The fast cases take
// rows at a fixed stride, the long ones all others.

#include "modes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/bytes.h"
#include "support/catch.h"
#include "support/sanitized.h"
#include "support/thread_ranks.h"
#include "support/tiny_model.h"

namespace strata::test {
namespace {

/// Everything that training changes.
struct Trained {
  std::vector<double> losses, norms;
  std::vector<StateBytes> states;  ///< by rank

  /// Returns the first thing that is not bitwise the same, or "".
  [[nodiscard]] std::string difference(const Trained& other) const {
    if (losses != other.losses) return "losses";
    if (norms != other.norms) return "norms";
    for (std::size_t rank = 0; rank < states.size(); ++rank) {
      for (std::size_t i = 0; i < states[rank].size(); ++i) {
        if (states[rank][i] == other.states.at(rank).at(i)) continue;
        return "tensor " + std::to_string(i) + " of the state of rank " + std::to_string(rank);
      }
    }
    return "";
  }
};

/// Trains a mode's steps; `look` sees the engine of the first rank, whose trace is recorded.
Trained train(const Mode& mode, TraceSink* trace,
              const std::function<void(TinyEngine&, const std::vector<StepOutcome>&)>& look) {
  Trained trained;
  trained.states.resize(static_cast<std::size_t>(mode.ranks));
  run_ranks(mode.ranks, [&](Ranks& group) {
    const bool first = group.rank() == 0;
    TinyEngine engine(mode.config, group, {.trace = first ? trace : nullptr});
    engine.submit_steps(0, mode.config.run.steps);
    engine.synchronize();
    trained.states[static_cast<std::size_t>(group.rank())] = state_bytes(engine.state());
    if (!first) return;
    const std::vector<StepOutcome> outcomes = engine.take_outcomes();
    for (const StepOutcome& outcome : outcomes) {
      trained.losses.push_back(outcome.loss.value());
      trained.norms.push_back(outcome.grad_norm);
    }
    if (look) look(engine, outcomes);
  });
  return trained;
}

/// What each arena has given out is what was planned, byte by byte and name by name.
void check_memory(TinyEngine& engine) {
  const MemoryPlan& plan = engine.setup().plan;
  for (const Arena* arena : engine.arenas()) {
    CHECK(arena->used() == plan.total(arena->space()));
    for (const LedgerEntry& taken : arena->ledger()) {
      INFO(taken.name);
      CHECK(std::ranges::any_of(plan.entries(), [&](const MemoryPlan::Entry& e) {
        return e.space == arena->space() && e.name == taken.name;
      }));
    }
  }
  CHECK(engine.device().device_bytes_in_use() >= plan.total(Space::kDevice));
  CHECK(engine.device().device_bytes_in_use() <= plan.total(Space::kDevice) + kMiB);
}

/// Every block is updated by the lane that its row names, and only where there is reason to is an
/// update taken back.
void check_updates(const RunConfig& config, const TinyEngine& engine, const Recorder& r,
                   const std::vector<StepOutcome>& outcomes) {
  const ModelLayout& layout = *engine.setup().model;
  // Of the blocks of a unit one is trained: its adapters if there are any, and else the first.
  PerUnit<const BlockPlan*> rows(layout.units.size());
  for (const BlockId b : layout.blocks.ids()) {
    const BlockPlan& row = engine.setup().state.blocks[b];
    if (row.is_trained()) rows[layout.blocks[b].unit] = &row;
  }
  std::size_t on_device = 0;
  std::vector<std::size_t> updates = r.find(AdamW::kName);
  for (const std::size_t i : r.find(Momentum::kName)) updates.push_back(i);
  for (const std::size_t i : updates) {
    const TraceRecord& record = r.records()[i];
    const BlockPlan* const row = rows[UnitId(record.what.tag.unit)];
    REQUIRE(row != nullptr);
    CHECK(record.lane == (row->updated_on_device() ? Lane::kOut : Lane::kHost));
    on_device += row->updated_on_device() ? 1 : 0;
  }
  const std::int64_t resident = *config.schedule.resident_units;
  const std::int64_t first = config.adapter ? 1 : 0;  // unit that is trained
  CHECK((on_device > 0) == (resident > first || config.optimizer.interleave.value_or(0) > 0));
  if (!config.adapter) CHECK((on_device == updates.size()) == (resident >= std::ssize(rows)));
  const bool speculates = engine.setup().speculated_units() > 0;
  CHECK(r.find("restore_state").empty() != speculates);
  for (const StepOutcome& outcome : outcomes) {
    CHECK(outcome.missed == (speculates && outcome.grad_norm > config.optimizer.grad_clip));
  }
}

/// Makes a row harder: slots are filled with NaN before each use, and most rows of one rank do the
/// work of all lanes in a random order. (One thread for all lanes would wait for other ranks in two
/// places.) Speculative rows take turns in how many of their steps are clipped.
Mode hardened(Mode mode, std::size_t number) {
  RunConfig& c = mode.config;
  c.debug.poison_slots = true;
  if (mode.ranks > 1) c.run.threads = 1;
  if (mode.ranks == 1 && number % 4 != 1 && c.debug.execution == Execution::kThreads) {
    c.debug.execution = Execution::kShuffled;
    c.debug.shuffle_seed = static_cast<std::int64_t>(number);
  }
  const bool default_clip = c.optimizer.grad_clip == tiny_config().optimizer.grad_clip;
  if (c.optimizer.timing == UpdateTiming::kSpeculative && default_clip) {
    c.optimizer.grad_clip = std::array{kClipsAll, kClipsSome, kClipsNone}[number % 3];
  }
  return mode;
}

/// The rows of a table at a fixed stride, or all others.
enum class Rows : std::uint8_t { kSpread, kOthers };

struct Sample {
  Rows rows = Rows::kSpread;
  std::size_t stride = 1;
  std::int64_t steps = kSanitized ? 2 : 4;  ///< at most; those after two run the same code
  std::string_view timing = "";  ///< of rows whose names begin with it; all if it is empty
};

/// Returns in how many rows some speculative updates were taken back, and others not.
int check_modes(const std::vector<Mode>& modes, const Sample& sample) {
  std::map<std::string, Trained> plain_runs;
  int mixed = 0;
  for (std::size_t number = 0; number < modes.size(); ++number) {
    if ((number % sample.stride == 0) != (sample.rows == Rows::kSpread)) continue;
    if (!modes[number].name.starts_with(sample.timing)) continue;
    INFO(modes[number].name);
    Mode mode = hardened(modes[number], number);
    if (kThreadsWatched && mode.config.debug.execution != Execution::kThreads) continue;
    mode.config.run.steps = std::min(mode.config.run.steps, sample.steps);
    const Mode plain = plain_mode(mode);
    const std::string key = config_hash(plain.config) + " " + std::to_string(plain.ranks);
    if (!plain_runs.contains(key)) plain_runs[key] = train(plain, nullptr, {});
    Recorder r;
    r.start();
    const Trained trained =
        train(mode, &r, [&](TinyEngine& engine, const std::vector<StepOutcome>& outcomes) {
          r.stop();
          check_memory(engine);
          check_updates(mode.config, engine, r, outcomes);
          const std::vector<KeepLevel>& levels = engine.setup().kept.levels;
          CHECK((std::ranges::adjacent_find(levels, std::ranges::not_equal_to()) != levels.end()) ==
                mode.config.memory.device_limit.has_value());
          const auto missed = std::ranges::count(outcomes, true, &StepOutcome::missed);
          mixed += missed > 0 && missed < std::ssize(outcomes) ? 1 : 0;
        });
    CHECK(trained.difference(plain_runs[key]) == "");
    CHECK(first_race(r) == "");
    const bool exact = mode.config.schedule.spill_dtype == BoundaryForm::kExact;
    CHECK(r.find(QuantizeRows::kName).empty() == exact);
    CHECK(r.records().size() > 100);
  }
  return mixed;
}

/// Returns the modes with a model whose layers have all that families add to a LLaMA's.
std::vector<Mode> of_richest_family(std::vector<Mode> modes) {
  for (Mode& mode : modes) enrich(mode.config.model.llama);
  return modes;
}

/// Returns the modes with adapters of some linears in some layers, over weights that stay.
std::vector<Mode> with_adapters(std::vector<Mode> modes) {
  for (Mode& mode : modes) {
    mode.config.adapter = {.rank = 3,
                           .alpha = 6,
                           .targets = {"q_proj", "v_proj", "o_proj", "down_proj"},
                           .rank_pattern = {"down_proj=5"},
                           .layers = {0, 1, 3, 4},
                           .dropout = 0.2};
  }
  return modes;
}

/// Returns the modes over packed weights. Where these are in 4 bits the model's matrices have
/// multiples of 64 elements.
std::vector<Mode> over(Form form, std::vector<Mode> modes) {
  for (Mode& mode : modes) {
    mode.config.adapter->base_format = form;
    if (form != Form::kNf4) continue;
    LlamaConfig& m = mode.config.model.llama;
    m.hidden_size = 16;
    m.intermediate_size = 20;
    m.head_dim = 4;
  }
  return modes;
}

// Strides have no factor in common with the lengths of the loops that make the tables.
constexpr std::size_t kStateStride = 19;
constexpr std::size_t kFamilyStride = 37;
constexpr std::size_t kFp8Stride = 43;
constexpr std::size_t kAdapterStride = 23;
constexpr std::size_t kCellStride = 11;
constexpr std::size_t kUpdateStride = 17;
constexpr std::size_t kSpeculativeStride = 5;

}  // namespace

TEST_CASE("training changes the weights and every norm is positive") {
  RunConfig config = tiny_config();
  const RunResult trained = run_tiny(config);
  config.run.steps = 0;
  const RunResult initial = run_tiny(config);
  REQUIRE(trained.losses.size() == 3);
  for (const double norm : trained.norms) CHECK(norm > 0.0);
  for (const auto& [name, values] : initial.weights) {
    INFO(name);
    CHECK(trained.weights.at(name) != values);
  }
}

TEST_CASE("the loss falls when the same rows are seen again", "[numbers]") {
  RunConfig config = tiny_config();
  config.run.steps = 60;
  config.model.llama.vocab_size = 11;
  const RunResult result = run_tiny(config);
  CHECK(result.losses.back() < result.losses.front() - 0.1);
}

TEST_CASE("modes of all timings and placements train as their plain runs do, without a race") {
  check_modes(state_modes(), {.stride = kStateStride});
}

TEST_CASE(
    "modes of a model with windows, a cap, biases and all norms train as their plain runs do") {
  check_modes(of_richest_family(state_modes()), {.stride = kFamilyStride});
}

TEST_CASE("modes whose products multiply codes train as their plain runs do, without a race") {
  check_modes(in_fp8(state_modes()), {.stride = kFp8Stride});
  check_modes(in_fp8(cell_modes()), {.stride = kFp8Stride});
  check_modes(in_fp8(update_modes()), {.stride = kFp8Stride});
  check_modes(in_fp8(of_richest_family(state_modes())), {.stride = 2 * kFp8Stride});
}

TEST_CASE("modes of adapters over weights that stay train as their plain runs do") {
  check_modes(with_adapters(state_modes()), {.stride = kAdapterStride});
  check_modes(with_adapters(in_fp8(state_modes())), {.stride = 2 * kFp8Stride});
}

TEST_CASE("modes of adapters over packed weights train as their plain runs do") {
  check_modes(over(Form::kNf4, with_adapters(state_modes())), {.stride = 2 * kAdapterStride});
  check_modes(over(Form::kFp8, with_adapters(state_modes())), {.stride = 3 * kAdapterStride});
  check_modes(over(Form::kInt8, with_adapters(state_modes())), {.stride = 4 * kAdapterStride});
  check_modes(over(Form::kFp8, with_adapters(in_fp8(state_modes()))), {.stride = 3 * kFp8Stride});
}

TEST_CASE("modes of slots and of what cells keep train as their plain runs do, without a race") {
  check_modes(cell_modes(), {.stride = kCellStride});
}

TEST_CASE("modes of deferred units and rings train as their plain runs do, without a race") {
  check_modes(update_modes(), {.stride = kUpdateStride});
}

TEST_CASE("right and wrong guesses that nothing is clipped leave what updates before use leave") {
  // In two steps, as under sanitizers, guesses may be all right or all wrong.
  CHECK(check_modes(speculative_modes(), {.stride = kSpeculativeStride, .steps = 4}) > 0);
}

TEST_CASE("every mode of updates before use trains as its plain run does", "[long]") {
  check_modes(state_modes(), {Rows::kOthers, kStateStride, 2, "before_use"});
}

TEST_CASE("every mode of updates on arrival trains as its plain run does", "[long]") {
  check_modes(state_modes(), {Rows::kOthers, kStateStride, 2, "on_arrival"});
}

TEST_CASE("every mode of speculative updates trains as its plain run does", "[long]") {
  check_modes(state_modes(), {Rows::kOthers, kStateStride, 2, "speculative"});
  const std::vector<Mode> modes = speculative_modes();
  const int mixed = check_modes(modes, {.steps = 4});
  CHECK((kThreadsWatched || 3 * mixed == std::ssize(modes)));
}

TEST_CASE("every mode of a model with windows and all norms trains as its plain run", "[long]") {
  check_modes(of_richest_family(state_modes()), {Rows::kOthers, kFamilyStride, 2});
}

TEST_CASE("every mode of states whose products multiply codes trains as its plain run", "[long]") {
  check_modes(in_fp8(state_modes()), {Rows::kOthers, kFp8Stride, 2});
  check_modes(in_fp8(update_modes()), {Rows::kOthers, kFp8Stride, 2});
}

TEST_CASE("every mode of cells whose products multiply codes trains as its plain run", "[long]") {
  check_modes(in_fp8(cell_modes()), {Rows::kOthers, kFp8Stride, 2});
  check_modes(in_fp8(of_richest_family(state_modes())), {Rows::kOthers, 2 * kFp8Stride, 1});
}

TEST_CASE("every mode of adapters trains as its plain run does", "[long]") {
  check_modes(with_adapters(state_modes()), {Rows::kOthers, kAdapterStride, 2});
  check_modes(over(Form::kNf4, with_adapters(state_modes())),
              {Rows::kOthers, 2 * kAdapterStride, 2});
}

TEST_CASE("every mode that spills, or has small moments and logs, trains as its plain run does") {
  check_modes(state_modes(), {Rows::kOthers, kStateStride, 3, "spill"});
  check_modes(state_modes(), {Rows::kOthers, kStateStride, 3, "bf16_moments"});
  check_modes(state_modes(), {Rows::kOthers, kStateStride, 3, "8bit_moments"});
}

TEST_CASE("every mode of slots and of what cells keep trains as its plain run does", "[long]") {
  check_modes(cell_modes(), {Rows::kOthers, kCellStride});
}

TEST_CASE("every mode of deferred units and rings trains as its plain run does", "[long]") {
  check_modes(update_modes(), {Rows::kOthers, kUpdateStride});
}

TEST_CASE("every kind of wait of a mode is found as a race when it is left out", "[one_thread]") {
  const std::vector<Mode> modes = state_modes();
  std::set<WaitFor> found;
  const auto omit = [&](const Mode& mode, WaitFor why) {
    RunConfig config = mode.config;
    config.run.steps = 2;
    config.debug.execution = Execution::kEager;  // the numbers stay right; only the order is wrong
    Recorder r;
    trace_run(r, config, mode.ranks, why);
    const bool race = !r.races(1).empty();
    if (race) found.insert(why);
    return race;
  };
  const auto named = [&](std::string_view name) {
    const auto mode = std::ranges::find(modes, name, &Mode::name);
    REQUIRE(mode != modes.end());
    return *mode;
  };
  // One thread for all lanes of two ranks is enough in this row.
  CHECK(omit(named("before_use.host.passes2.host.ranks2.tied.f64"), WaitFor::kGathered));
  CHECK(omit(named("on_arrival_ring.host.passes1.host.ranks1.bf16"), WaitFor::kArrived));
  // The host adds gradients up, or reads them in a ring. Elsewhere other waits imply this kind.
  for (const std::string_view name : {"before_use.host.passes2.host.ranks1.tied.f64",
                                      "on_arrival_ring.host.passes1.host.ranks1.bf16",
                                      "on_arrival_ring.host.passes2.device.ranks1.tied.f64"}) {
    INFO(std::string(name));
    CHECK(omit(named(name), WaitFor::kTaken));
  }
  for (std::size_t number = 0; number < modes.size(); number += 25) {
    const Mode& mode = modes[number];
    if (mode.ranks > 1) continue;
    Recorder whole;
    trace_run(whole, mode.config);
    std::set<WaitFor> kinds;
    for (const TraceRecord& record : whole.records()) {
      for (const Wait& wait : record.waits) kinds.insert(wait.why);
    }
    for (const WaitFor why : kinds) {
      if (why == WaitFor::kTaken || why == WaitFor::kTurn) continue;
      INFO(mode.name << ", left out: " << std::string(name_of(why)));
      CHECK(omit(mode, why));
    }
  }
  CHECK(found.size() == kProtectingWaitCount - 1);  // these runs save nothing; tests/train has it
}

}  // namespace strata::test
