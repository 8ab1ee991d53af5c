// State that is loaded on another number of ranks, in other homes or in other dtypes, compared with
// what was saved: the same bits, or values that the test rounds itself. What the order of sums may
// change afterwards is measured, as what rounding changes when the run is made in another dtype.

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>
#include <utility>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/thread_ranks.h"
#include "train/save_ways.h"
#include "train/saved_run.h"

namespace strata::test {
namespace {

/// Trains `steps` steps, saves them, and returns the state.
WholeState save_state(const RunConfig& config, int ranks, Files& files, std::int64_t steps) {
  std::mutex mutex;
  WholeState state;
  run_ranks(ranks, [&](Ranks& group) {
    Session session(config, group, hooks_of(files));
    for (std::int64_t step = 0; step < steps; ++step) session.submit(step, config.optimizer.lr);
    session.synchronize();
    WholeState own = gather_state(session, group);
    session.checkpoints()->save_now({.whole = true}, steps, session.samples_after(steps));
    const std::lock_guard lock(mutex);
    if (group.rank() == 0) state = std::move(own);
  });
  return state;
}

/// Returns the state that a run begins with which goes on from there, before its first step.
WholeState loaded_state(const RunConfig& config, int ranks, Files& files, std::int64_t from) {
  std::mutex mutex;
  WholeState state;
  run_ranks(ranks, [&](Ranks& group) {
    Session session(config, group, hooks_of(files, from));
    WholeState own = gather_state(session, group);
    const std::lock_guard lock(mutex);
    if (group.rank() == 0) state = std::move(own);
  });
  return state;
}

double to_f32(double value) { return static_cast<double>(static_cast<float>(value)); }

/// The nearest bf16 of an f32, ties to even.
double to_bf16(double value) {
  auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  bits += 0x7fff + ((bits >> 16) & 1);
  return static_cast<double>(std::bit_cast<float>(bits & 0xffff0000));
}

/// The bf16 that is the high half of an f32: the nearest, ties away from zero.
double to_high_half(double value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(value)) + 0x8000;
  return static_cast<double>(std::bit_cast<float>(bits & 0xffff0000));
}

/// Rounds a moment to the nearest numbers that codes of 8 bits have: 31 times so many doublings of
/// code 1 are not below the largest of 64.
void to_codes(std::vector<double>& values, int doublings, bool may_vanish) {
  std::ranges::transform(values, values.begin(), to_f32);
  for (std::size_t begin = 0; begin < values.size(); begin += 64) {
    const std::size_t end = std::min(begin + 64, values.size());
    double largest = 0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(values[i]));
    double unit = 0x1p-126;
    while (31 * std::exp2(doublings) * unit < largest) unit *= 2;
    for (std::size_t i = begin; i < end; ++i) {
      if (values[i] == 0) continue;
      const double size = std::abs(values[i]);
      const double step = std::max(unit, std::exp2(std::floor(std::log2(size)) - 4));
      double rounded = std::floor(size / step + 0.5) * step;
      if (!may_vanish) rounded = std::max(rounded, unit);
      values[i] = std::copysign(rounded, values[i]);
    }
  }
}

/// Returns the state in other dtypes. Masters are f64 or, split or not, f32.
WholeState in_dtypes(WholeState state, const Numbers& numbers) {
  const bool exact = numbers.dtype == DType::kF64;
  for (auto& [name, values] : state.tensors) {
    if (exact) continue;
    if (numbers.moments == DType::kU8 && !name.ends_with(" master")) {
      to_codes(values, name.ends_with(" m") ? 6 : 14, name.ends_with(" m"));
      continue;
    }
    const bool small = numbers.moments == DType::kBF16 && !name.ends_with(" master");
    std::ranges::transform(values, values.begin(), small ? to_bf16 : to_f32);
  }
  return state;
}

std::string first_difference(const WholeState& found, const WholeState& expected) {
  for (const auto& [name, values] : expected.tensors) {
    const auto other = found.tensors.find(name);
    if (other == found.tensors.end() || other->second != values) return name;
  }
  return found.tensors.size() == expected.tensors.size() ? "" : "more tensors";
}

/// Flips one bit of a file.
void damage(Files& files, const std::filesystem::path& file, std::uint64_t at) {
  std::byte byte{};
  files.open(file)->read(at, {&byte, 1});
  byte ^= std::byte{4};
  files.open_to_write(file)->write(at, {&byte, 1});
}

}  // namespace

TEST_CASE("state has the same bits on another number of ranks, wherever it lives") {
  for (const auto& [dtype, moments] :
       {std::pair{DType::kBF16, DType::kF32}, std::pair{DType::kBF16, DType::kU8},
        std::pair{DType::kF64, DType::kF32}}) {
    for (const int ranks : {1, 2, 3, 4}) {
      const Numbers numbers{
          .dtype = dtype, .moments = moments, .tied = dtype == DType::kBF16, .ranks = ranks};
      MemoryFiles files(kRunFolder);
      const WholeState saved = save_state(save_config(numbers), ranks, files, 2);
      std::size_t turn = static_cast<std::size_t>(ranks);
      for (const int others : {1, 2, 3, 4}) {
        Numbers later = numbers;
        later.ranks = others;
        const std::vector<Placement> placements = placements_of(later);
        const Placement& placement = placements[turn++ * 5 % placements.size()];
        INFO(numbers.to_string() << " to " << others << " ranks, " << placement.to_string());
        CHECK(first_difference(loaded_state(save_config(later, placement), others, files, 2),
                               saved) == "");
      }
    }
  }
}

TEST_CASE("state is loaded in the dtypes of the run that goes on", "[long]") {
  const std::vector<Numbers> all{{.dtype = DType::kBF16},
                                 {.dtype = DType::kBF16, .moments = DType::kBF16},
                                 {.dtype = DType::kF32},
                                 {.dtype = DType::kBF16, .moments = DType::kU8},
                                 {.dtype = DType::kF32, .moments = DType::kBF16},
                                 {.dtype = DType::kF32, .moments = DType::kU8},
                                 {.dtype = DType::kF64}};
  for (const Numbers& numbers : all) {
    MemoryFiles files(kRunFolder);
    const WholeState saved = save_state(save_config(numbers), 1, files, 2);
    for (Numbers later : all) {
      for (const int ranks : {1, 2}) {
        later.ranks = ranks;
        for (const Placement& placement :
             {Placement{}, Placement{.resident = 2, .interleave = 0.5}}) {
          INFO(numbers.to_string() << " to " << later.to_string() << ", " << placement.to_string());
          CHECK(first_difference(loaded_state(save_config(later, placement), ranks, files, 2),
                                 in_dtypes(saved, later)) == "");
        }
      }
    }
  }
}

TEST_CASE("low halves are zeros where a checkpoint has none, and go where the run has none") {
  const auto config_of = [](MasterWeights master, const Placement& placement = {}) {
    RunConfig config = save_config({.dtype = DType::kBF16}, placement);
    config.optimizer.master = master;
    return config;
  };
  for (const Placement& placement : {Placement{}, Placement{.resident = 2, .interleave = 0.5}}) {
    INFO(placement.to_string());
    MemoryFiles split(kRunFolder);
    WholeState whole = save_state(config_of(MasterWeights::kSplit), 1, split, 2);
    for (auto& [name, values] : whole.tensors) {
      if (name.ends_with(" master")) std::ranges::transform(values, values.begin(), to_high_half);
    }
    CHECK(first_difference(loaded_state(config_of(MasterWeights::kNone, placement), 2, split, 2),
                           whole) == "");

    MemoryFiles none(kRunFolder);
    const WholeState rounded = save_state(config_of(MasterWeights::kNone), 1, none, 2);
    for (const MasterWeights master : {MasterWeights::kNone, MasterWeights::kSplit}) {
      CHECK(first_difference(loaded_state(config_of(master, placement), 2, none, 2), rounded) ==
            "");
    }
  }
}

TEST_CASE("files of wider dtypes are read where this run's own would fit in smaller buffers") {
  const auto large = [](const Numbers& numbers) {
    RunConfig config = save_config(numbers);
    config.model.llama.vocab_size = 6007;
    return config;
  };
  const Numbers small{.moments = DType::kBF16};
  for (const Numbers& numbers : {Numbers{.dtype = DType::kF64}, Numbers{}}) {
    MemoryFiles files(kRunFolder);
    const WholeState saved = save_state(large(numbers), 1, files, 1);
    CHECK(first_difference(loaded_state(large(small), 1, files, 1), in_dtypes(saved, small)) == "");
  }
}

TEST_CASE("a run that goes on on other ranks ends as one that did not, within rounding") {
  constexpr std::int64_t kSteps = 4;
  const OptimizerKind kind = GENERATE(OptimizerKind::kAdamW, OptimizerKind::kMuon);
  const auto config_of = [kind](DType dtype, int ranks) {
    RunConfig config = save_config({.dtype = dtype, .ranks = ranks});
    config.optimizer.kind = kind;
    config.run.threads = 1;
    config.schedule.sub_batches = 4 / ranks;  // the rows of a step stay the same
    config.optimizer.eps = 1e-2;              // as large as gradients: AdamW is smooth, not a sign
    return config;
  };
  MemoryFiles files(kRunFolder);
  const SavedRun whole = train_and_save(config_of(DType::kF64, 1), 1, files,
                                        {.after = {2}, .at_end = true, .steps = kSteps});
  MemoryFiles others(kRunFolder);
  const SavedRun rounded = train_and_save(config_of(DType::kF32, 1), 1, others, {.steps = kSteps});
  // To first order errors are proportional to the unit roundoff. Two runs are apart by at most the
  // sum of their errors: two of them, and one for chance.
  constexpr double kRoom = 3;
  const double roundoffs = std::ldexp(1.0, -53 + 24);
  double tolerance = std::max(relative_error(rounded.run.losses, whole.run.losses),
                              relative_error(rounded.run.norms, whole.run.norms));
  for (const auto& [name, values] : whole.run.weights) {
    tolerance = std::max(tolerance, relative_error(rounded.run.weights.at(name), values));
  }
  tolerance *= kRoom * roundoffs;
  const auto rest = [](const std::vector<double>& values) {
    return std::vector<double>(values.begin() + 2, values.end());
  };
  for (const int ranks : {2, 4}) {
    const SavedRun resumed =
        train_and_save(config_of(DType::kF64, ranks), ranks, files, {.from = 2, .steps = kSteps});
    CHECK(relative_error(resumed.run.losses, rest(whole.run.losses)) <= tolerance);
    CHECK(relative_error(resumed.run.norms, rest(whole.run.norms)) <= tolerance);
    bool differs = false;
    for (const auto& [name, values] : whole.run.weights) {
      INFO(name);
      CHECK(relative_error(resumed.run.weights.at(name), values) <= tolerance);
      differs = differs || resumed.run.weights.at(name) != values;
    }
    CHECK(differs);  // else the tolerance was not tested
  }
}

TEST_CASE("a checkpoint with a flipped bit in what is read is refused by the file's name") {
  const Numbers numbers;
  MemoryFiles files(kRunFolder);
  static_cast<void>(save_state(save_config(numbers), 1, files, 1));
  const std::filesystem::path folder = kCheckpoints / checkpoint_name(1);
  const auto self = make_self_ranks();
  const auto go_on = [&] {
    Session(save_config(numbers, {.resident = 2}), *self, hooks_of(files, 1));
  };
  go_on();
  for (const auto& [path, bytes] : checkpoint_contents(files, 1, Manifests::kWithout)) {
    // Headers are not read: a checkpoint's layout follows from the model.
    const std::uint64_t begin = path.ends_with(".safetensors") ? kFileAlignment : 0;
    for (const std::uint64_t at : {begin, begin + 37}) {
      INFO(path << " at " << at);
      damage(files, folder / path, at);
      CHECK_THROWS_WITH(go_on(), ContainsSubstring(path) && ContainsSubstring("damaged"));
      damage(files, folder / path, at);
    }
  }
  go_on();
}

TEST_CASE("a checkpoint of another model is refused") {
  MemoryFiles files(kRunFolder);
  RunConfig config = save_config({});
  static_cast<void>(save_state(config, 1, files, 1));
  const auto self = make_self_ranks();
  config.model.llama.intermediate_size += 1;
  CHECK_THROWS_WITH(Session(config, *self, hooks_of(files, 1)),
                    ContainsSubstring("another size") || ContainsSubstring("another model"));
}

}  // namespace strata::test
