// Tests the modes that must not change a bit, against the plain run; docs/numerics.md lists
// them. Modes that change the order of sums are in rounding_test.cpp.

#include <initializer_list>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/tiny_run.h"

namespace strata::test {
namespace {

RunConfig with_dtype(DType dtype) {
  RunConfig config = tiny_config();
  config.run.dtype = dtype;
  return config;
}

/// The dtypes of weights and moments that every mode is tried with.
std::vector<RunConfig> dtype_configs() {
  RunConfig small_moments = with_dtype(DType::kBF16);
  small_moments.optimizer.moment_dtype = DType::kBF16;
  return {with_dtype(DType::kF64), with_dtype(DType::kBF16), small_moments};
}

std::string dtypes_of(const RunConfig& config) {
  return std::string(name_of(config.run.dtype)) + " with moments in " +
         std::string(name_of(config.optimizer.moment_dtype));
}

/// A device limit with which "auto" keeps some cells more than others: a share of what "full" takes
/// beside everything else.
void keep_share(RunConfig& config, double share) {
  const auto bytes = [&](KeepLevel level) {
    config.schedule.activations = level;
    return make_setup(config, 0, 1, {}).device_bytes();
  };
  const std::size_t least = bytes(KeepLevel::kRecompute);
  const auto kept = share * static_cast<double>(bytes(KeepLevel::kFull) - least);
  config.schedule.activations = std::nullopt;
  config.memory.device_limit = ByteSize{least + static_cast<std::size_t>(kept)};
  const Setup setup = make_setup(config, 0, 1, {.device_limit = config.memory.device_limit->bytes});
  REQUIRE(setup.kept.count(setup.kept.levels.front()) < setup.kept.levels.size());
}

/// Every level for all cells, and two mixtures, compared with a run that recomputes.
void check_levels(RunConfig config) {
  config.schedule.activations = KeepLevel::kRecompute;
  const RunResult plain = run_tiny(config);
  config.debug.poison_slots = true;
  for (const KeepLevel level : kKeepLevels) {
    INFO(std::string(name_of(level)));
    config.schedule.activations = level;
    CHECK(run_tiny(config) == plain);
  }
  for (const double share : {0.15, 0.6}) {
    INFO("share " << share);
    keep_share(config, share);
    CHECK(run_tiny(config) == plain);
  }
}

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

TEST_CASE("the loss falls when the same rows are seen again") {
  RunConfig config = tiny_config();
  config.run.steps = 60;
  config.model.llama.vocab_size = 11;
  const RunResult result = run_tiny(config);
  CHECK(result.losses.back() < result.losses.front() - 0.1);
}

TEST_CASE("modes that only move bytes are bitwise equal to the plain run", "[long]") {
  for (const RunConfig& base : dtype_configs()) {
    INFO(dtypes_of(base));
    const RunResult plain = run_tiny(base);
    const auto same = [&](const std::string& what, const RunConfig& config) {
      INFO(what);
      CHECK(run_tiny(config) == plain);
    };
    RunConfig c = base;
    for (const std::int64_t slots : {2, 3, 4, 5, 8, 13}) {
      c.schedule.activation_slots = slots;
      same("activation slots " + std::to_string(slots), c);
    }
    c = base;
    for (const std::int64_t slots : {1, 2, 3}) {
      c.schedule.weight_slots = slots;
      same("weight slots " + std::to_string(slots), c);
    }
    c = base;
    for (const std::int64_t slots : {1, 3}) {
      c.schedule.gradient_slots = slots;
      same("gradient slots " + std::to_string(slots), c);
    }
    c = base;
    c.debug.execution = Execution::kEager;
    same("eager", c);
    c.debug.execution = Execution::kShuffled;
    for (const std::int64_t seed : {1, 2, 3, 4, 5}) {
      c.debug.shuffle_seed = seed;
      c.schedule.activation_slots = 3 + seed;
      same("shuffled with seed " + std::to_string(seed), c);
    }
    c = base;
    c.debug.poison_slots = true;
    c.schedule.activation_slots = 5;
    same("poisoned slots", c);
    c = base;
    c.debug.synchronize_each = true;
    same("synchronised after every submission", c);
    c = base;
    c.run.threads = 1;
    same("one thread", c);
  }
}

TEST_CASE("what is kept of a cell does not change a bit", "[long]") {
  for (const DType dtype : {DType::kF64, DType::kBF16}) {
    for (const std::int64_t sub_batches : {1, 2, 3}) {
      RunConfig c = with_dtype(dtype);
      c.run.steps = 2;
      c.schedule.sub_batches = sub_batches;
      c.schedule.passes = 2;
      INFO(std::string(name_of(dtype)) << ", S = " << sub_batches);
      check_levels(c);
    }
  }
}

TEST_CASE("what is kept does not change a bit while boundaries are spilled") {
  RunConfig c = with_dtype(DType::kBF16);
  c.schedule.activation_slots = 3;
  c.data.document_mask = true;
  c.debug.execution = Execution::kShuffled;
  check_levels(c);
}

namespace {

/// Device and host tiers, by level.
struct Tiers {
  KeepLevel kept, spilled;
};
constexpr Tiers kTiers[] = {{KeepLevel::kRecompute, KeepLevel::kAttention},
                            {KeepLevel::kRecompute, KeepLevel::kFull},
                            {KeepLevel::kAttention, KeepLevel::kSelective},
                            {KeepLevel::kSelective, KeepLevel::kFull}};

/// All tiers through so many slots against a run that recomputes.
void check_tiers(RunConfig config, std::initializer_list<std::int64_t> slots) {
  config.schedule.activations = KeepLevel::kRecompute;
  const RunResult plain = run_tiny(config);
  config.debug.poison_slots = true;
  for (const Tiers& tiers : kTiers) {
    for (const std::int64_t count : slots) {
      INFO(std::string(name_of(tiers.kept))
           << ", spilled up to " << std::string(name_of(tiers.spilled)) << ", " << count
           << " slots");
      config.schedule.activations = tiers.kept;
      config.schedule.spill = tiers.spilled;
      config.schedule.spill_slots = count;
      CHECK(run_tiny(config) == plain);
    }
  }
}

}  // namespace

TEST_CASE("what is spilled of a cell does not change a bit", "[long]") {
  for (const DType dtype : {DType::kF64, DType::kBF16}) {
    for (const std::int64_t sub_batches : {1, 3}) {
      RunConfig c = with_dtype(dtype);
      c.run.steps = 2;
      c.schedule.sub_batches = sub_batches;
      c.schedule.passes = 2;
      INFO(std::string(name_of(dtype)) << ", S = " << sub_batches);
      if (dtype == DType::kF64) {
        check_tiers(c, {2});
      } else {
        check_tiers(c, {1, 3});
      }
    }
  }
}

TEST_CASE("spilled cells and boundaries do not change a bit in any order of execution") {
  RunConfig c = with_dtype(DType::kBF16);
  c.run.steps = 2;
  c.schedule.activation_slots = 3;
  c.data.document_mask = true;
  c.debug.execution = Execution::kShuffled;
  for (const std::int64_t seed : {1, 2, 3}) {
    c.debug.shuffle_seed = seed;
    check_tiers(c, {1, 2, 100});
  }
}

TEST_CASE("cells of different tiers in one run do not change a bit") {
  RunConfig c = with_dtype(DType::kBF16);
  c.schedule.activations = KeepLevel::kRecompute;
  const RunResult plain = run_tiny(c);
  c.schedule.spill = KeepLevel::kSelective;
  const std::size_t least = make_setup(c, 0, 1, {}).device_bytes();
  c.schedule.activations = std::nullopt;
  c.memory.device_limit = ByteSize{least + 15'000};
  const Setup setup = make_setup(c, 0, 1, {.device_limit = c.memory.device_limit->bytes});
  REQUIRE(setup.kept.levels.front() != setup.kept.levels.back());
  REQUIRE(setup.kept.spills(0));
  c.debug.poison_slots = true;
  CHECK(run_tiny(c) == plain);
}

TEST_CASE("in int8 the numbers depend neither on slots nor on where things are kept") {
  for (const DType dtype : {DType::kF64, DType::kBF16}) {
    INFO(std::string(name_of(dtype)));
    RunConfig c = with_dtype(dtype);
    c.schedule.spill_dtype = BoundaryForm::kInt8;
    c.schedule.activations = KeepLevel::kRecompute;
    const RunResult plain = run_tiny(c);
    const auto same = [&](const std::string& what, const RunConfig& config) {
      INFO(what);
      CHECK(run_tiny(config) == plain);
    };
    RunConfig other = c;
    other.debug.poison_slots = true;
    for (const std::int64_t slots : {7, 8, 13, 24}) {
      other.schedule.activation_slots = slots;
      same("activation slots " + std::to_string(slots), other);
    }
    other = c;
    other.debug.execution = Execution::kShuffled;
    for (const std::int64_t seed : {1, 2, 3}) {
      other.debug.shuffle_seed = seed;
      same("shuffled with seed " + std::to_string(seed), other);
    }
    other = c;
    other.schedule.activations = KeepLevel::kFull;
    const RunResult full = run_tiny(other);
    CHECK(!(full == plain));  // what is kept was made from the exact input
    for (const KeepLevel kept : {KeepLevel::kRecompute, KeepLevel::kAttentionOut}) {
      other.schedule.activations = kept;
      other.schedule.spill = KeepLevel::kFull;
      CHECK(run_tiny(other) == full);
    }
  }
}

TEST_CASE("in int8 forward and its loss are exact") {
  RunConfig c = with_dtype(DType::kF64);
  c.run.steps = 1;
  c.schedule.activations = KeepLevel::kRecompute;
  const RunResult exact = run_tiny(c);
  c.schedule.spill_dtype = BoundaryForm::kInt8;
  const RunResult int8 = run_tiny(c);
  CHECK(int8.losses == exact.losses);
  CHECK(int8.norms != exact.norms);
  // The head's gradient needs no boundary but its own, which is not spilled.
  c.optimizer.grad_clip = std::nullopt;
  const RunResult unclipped = run_tiny(c);
  c.schedule.spill_dtype = BoundaryForm::kExact;
  CHECK(unclipped.weights.at("lm_head.weight") == run_tiny(c).weights.at("lm_head.weight"));
}

TEST_CASE("the number of sub-batches does not change a bit on the cpu") {
  for (const DType dtype : {DType::kF64, DType::kBF16}) {
    RunConfig c = with_dtype(dtype);
    c.schedule.rows = 6;
    c.schedule.sub_batches = 1;
    const RunResult plain = run_tiny(c);
    for (const std::int64_t sub_batches : {2, 3, 6}) {
      c.schedule.sub_batches = sub_batches;
      c.schedule.rows = 6 / sub_batches;
      INFO(std::string(name_of(dtype)) << ", S = " << sub_batches);
      CHECK(run_tiny(c) == plain);
    }
    c.schedule.rows = 1;
    c.schedule.sub_batches = 8;
    const RunResult eight = run_tiny(c);
    c.schedule.rows = 8;
    c.schedule.sub_batches = 1;
    CHECK(run_tiny(c) == eight);
  }
}

TEST_CASE("update timings without clipping are bitwise equal") {
  for (RunConfig c : dtype_configs()) {
    c.optimizer.grad_clip = std::nullopt;
    const RunResult plain = run_tiny(c);
    c.optimizer.timing = UpdateTiming::kOnArrival;
    for (const std::int64_t deferred : {0, 1, 2, 5}) {
      INFO(dtypes_of(c) << ", deferred " << deferred);
      c.optimizer.deferred_units = deferred;
      CHECK(run_tiny(c) == plain);
    }
  }
}

TEST_CASE("where state lives and where gradients are added does not change a bit", "[long]") {
  const RunConfig base = [] {
    RunConfig c = tiny_config();
    c.run.steps = 2;
    c.debug.poison_slots = true;
    return c;
  }();
  const auto units = static_cast<std::int64_t>(base.model.llama.num_hidden_layers) + 2;
  for (const DType dtype : {DType::kF64, DType::kBF16}) {
    for (const UpdateTiming timing : {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival}) {
      for (const std::int64_t passes : {1, 2}) {
        for (const bool tied : {false, true}) {
          for (const int ranks : {1, 2}) {
            RunConfig c = base;
            c.run.dtype = dtype;
            c.optimizer.gradient_dtype = dtype == DType::kBF16 ? DType::kBF16 : DType::kF32;
            c.optimizer.timing = timing;
            if (timing == UpdateTiming::kOnArrival) c.optimizer.grad_clip = std::nullopt;
            c.optimizer.deferred_units = 2;
            c.schedule.passes = passes;
            c.schedule.sub_batches = 2;
            c.model.llama.tie_word_embeddings = tied;
            INFO(std::string(name_of(dtype))
                 << ", " << std::string(enum_name(kUpdateTimingNames, timing)) << ", passes "
                 << passes << ", tied " << tied << ", ranks " << ranks);
            const RunResult plain = run_tiny(c, ranks);
            c.schedule.gradient_sums = GradientSums::kDevice;
            CHECK(run_tiny(c, ranks) == plain);
            for (const std::int64_t resident : {std::int64_t{1}, std::int64_t{3}, units}) {
              INFO("resident units " << resident);
              c.schedule.resident_units = resident;
              c.schedule.gradient_sums =
                  resident == 1 ? GradientSums::kHost : GradientSums::kDevice;
              // One thread for all lanes would wait for the other rank in two places.
              c.debug.execution =
                  resident == 3 && ranks == 1 ? Execution::kShuffled : Execution::kThreads;
              CHECK(run_tiny(c, ranks) == plain);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("tied embeddings are counted once and updated in either timing") {
  RunConfig c = tiny_config();
  c.model.llama.tie_word_embeddings = true;
  const RunResult plain = run_tiny(c);
  CHECK(plain.weights.count("lm_head.weight") == 0);
  RunConfig on_arrival = c;
  on_arrival.optimizer.grad_clip = std::nullopt;
  RunConfig before_use = on_arrival;
  on_arrival.optimizer.timing = UpdateTiming::kOnArrival;
  CHECK(run_tiny(on_arrival) == run_tiny(before_use));
}

namespace {

/// Rings of so many slots, with so many units deferred where they have room for them.
struct Rings {
  std::initializer_list<std::int64_t> slots, deferred;
};

void check_rings(const Rings& rings) {
  for (RunConfig base : dtype_configs()) {
    base.model.llama.num_hidden_layers = 5;
    base.optimizer.grad_clip = std::nullopt;
    base.optimizer.timing = UpdateTiming::kOnArrival;
    if (base.run.dtype == DType::kBF16) base.optimizer.gradient_dtype = DType::kBF16;
    for (const int ranks : {1, 2}) {
      const RunResult homes = run_tiny(base, ranks);
      const auto same = [&](const std::string& what, const RunConfig& config) {
        INFO(dtypes_of(base) << ", ranks " << ranks << ", ring of "
                             << *config.optimizer.gradient_ring << ", " << what);
        CHECK(run_tiny(config, ranks) == homes);
      };
      for (const std::int64_t slots : rings.slots) {
        RunConfig c = base;
        c.debug.poison_slots = true;
        c.optimizer.gradient_ring = slots;
        same("deferred by default", c);
        for (const std::int64_t deferred : rings.deferred) {
          if (deferred + 2 > slots) continue;
          c.optimizer.deferred_units = deferred;
          same("deferred " + std::to_string(deferred), c);
        }
      }
      RunConfig c = base;
      c.optimizer.gradient_ring = 2;
      for (const std::int64_t seed : {1, 2, 3}) {
        if (ranks > 1) break;  // one thread cannot wait for other ranks on two lanes
        c.debug.execution = Execution::kShuffled;
        c.debug.shuffle_seed = seed;
        same("shuffled with seed " + std::to_string(seed), c);
      }
      c.debug.execution = Execution::kEager;
      c.schedule.gradient_slots = 1;
      same("eager with one accumulator", c);
      RunConfig passes = base;
      passes.schedule.sub_batches = 2;
      passes.schedule.passes = 2;
      const RunResult summed = run_tiny(passes, ranks);
      passes.schedule.gradient_sums = GradientSums::kDevice;
      passes.optimizer.gradient_ring = 2;
      passes.debug.poison_slots = true;
      CHECK(run_tiny(passes, ranks) == summed);
      for (const std::int64_t resident : {4, 7}) {
        INFO("resident units " << resident);
        passes.schedule.resident_units = resident;
        CHECK(run_tiny(passes, ranks) == summed);
        c = base;
        c.debug.poison_slots = true;
        c.optimizer.gradient_ring = 2;
        c.schedule.resident_units = resident;
        same("resident units", c);
      }
    }
  }
}

}  // namespace

TEST_CASE("a gradient ring does not change a bit", "[long]") {
  check_rings({.slots = {2, 4}, .deferred = {0, 2}});
}

TEST_CASE("a gradient ring of any size does not change a bit", "[long]") {
  check_rings({.slots = {3, 100}, .deferred = {0, 1, 7}});
}

TEST_CASE("tied embeddings are summed in their home beside a gradient ring") {
  RunConfig c = tiny_config();
  c.model.llama.tie_word_embeddings = true;
  c.optimizer.grad_clip = std::nullopt;
  c.optimizer.timing = UpdateTiming::kOnArrival;
  const RunResult homes = run_tiny(c);
  c.optimizer.gradient_ring = 2;
  CHECK(run_tiny(c) == homes);
}

TEST_CASE("a model of one layer and one sub-batch trains") {
  RunConfig c = tiny_config();
  c.model.llama.num_hidden_layers = 1;
  c.schedule.sub_batches = 1;
  const RunResult one = run_tiny(c);
  CHECK(one.losses.size() == 3);
  c.debug.execution = Execution::kEager;
  CHECK(run_tiny(c) == one);
  c.schedule.activations = KeepLevel::kRecompute;
  c.schedule.spill = KeepLevel::kFull;
  CHECK(run_tiny(c) == one);
  c.schedule.spill_dtype = BoundaryForm::kInt8;
  const RunResult int8 = run_tiny(c);
  CHECK(int8.losses.front() == one.losses.front());
  c.debug.execution = Execution::kShuffled;
  CHECK(run_tiny(c) == int8);
}

}  // namespace strata::test
