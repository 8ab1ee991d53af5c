// Prints what a table of configs submits: for each a digest of the canonical trace of its steps,
// and with --output a file of every trace. Two versions of the program that print the same table
// submit the same work in the same order, on the same bytes, after the same waits. It is a program
// and no test: a change that means to change what is submitted changes the table.

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/base/log.h"
#include "support/tiny_run.h"

namespace strata::test {
namespace {

struct Case {
  std::string name;
  RunConfig config;
  int ranks = 1;
};

/// Every store recycles its slots.
RunConfig tight_config() {
  RunConfig config = tiny_config();
  config.schedule.sub_batches = 3;
  config.schedule.activation_slots = 4;
  config.schedule.weight_slots = 2;
  config.schedule.gradient_slots = 2;
  config.model.llama.num_hidden_layers = 5;
  return config;
}

/// Where the state of blocks lives, and who updates it.
struct Placement {
  std::string_view name;
  std::int64_t resident;
  double interleave;
};
constexpr Placement kPlacements[] = {
    {"host", 0, 0},           {"resident2", 2, 0},
    {"resident_all", 7, 0},   {"interleave_half", 0, 0.5},
    {"interleave_all", 0, 1}, {"resident2_interleave_half", 2, 0.5}};

/// When blocks are updated; a ring of gradients where the timing allows one.
struct Timing {
  std::string_view name;
  UpdateTiming timing;
  std::int64_t deferred;
  std::int64_t ring;  ///< 0: none
};
constexpr Timing kTimings[] = {{"before_use", UpdateTiming::kBeforeUse, 0, 0},
                               {"on_arrival", UpdateTiming::kOnArrival, 2, 0},
                               {"on_arrival_all", UpdateTiming::kOnArrival, 0, 0},
                               {"on_arrival_ring", UpdateTiming::kOnArrival, 2, 4},
                               {"speculative", UpdateTiming::kSpeculative, 2, 0}};

std::vector<Case> table() {
  std::vector<Case> cases;
  for (const Timing& timing : kTimings) {
    for (const Placement& placement : kPlacements) {
      for (const std::int64_t passes : {1, 2}) {
        for (const GradientSums sums : {GradientSums::kHost, GradientSums::kDevice}) {
          for (const int ranks : {1, 2}) {
            for (const bool tied : {false, true}) {
              const bool one_sum = passes == 1 && !tied;
              if (one_sum && sums == GradientSums::kDevice) continue;
              if (timing.ring > 0 && passes > 1 && sums == GradientSums::kHost) continue;
              RunConfig c = tight_config();
              const DType dtype = tied ? DType::kF64 : DType::kBF16;
              c.run.dtype = dtype;
              c.optimizer.gradient_dtype = tied ? DType::kF32 : DType::kBF16;
              c.optimizer.timing = timing.timing;
              c.optimizer.deferred_units = timing.deferred;
              if (timing.ring > 0) c.optimizer.gradient_ring = timing.ring;
              if (timing.timing == UpdateTiming::kOnArrival) c.optimizer.grad_clip = std::nullopt;
              c.optimizer.interleave = placement.interleave;
              c.schedule.resident_units = tied && placement.resident == 7 ? 6 : placement.resident;
              c.schedule.passes = passes;
              c.schedule.gradient_sums = sums;
              c.model.llama.tie_word_embeddings = tied;
              std::string name = std::string(timing.name) + "." + std::string(placement.name) +
                                 ".passes" + std::to_string(passes) + "." +
                                 std::string(enum_name(kGradientSumsNames, sums)) + ".ranks" +
                                 std::to_string(ranks) + (tied ? ".tied.f64" : ".bf16");
              cases.push_back({std::move(name), std::move(c), ranks});
            }
          }
        }
      }
    }
  }
  for (const bool int8 : {false, true}) {
    for (const std::int64_t slots : {2, 100}) {
      RunConfig c = tight_config();
      c.schedule.activations = KeepLevel::kAttention;
      c.schedule.spill = KeepLevel::kFull;
      c.schedule.spill_slots = slots;
      if (int8) c.schedule.spill_dtype = BoundaryForm::kInt8;
      c.debug.poison_slots = slots == 2;
      cases.push_back({"spill" + std::to_string(slots) + (int8 ? ".int8" : ""), std::move(c), 1});
    }
  }
  RunConfig moments = tight_config();
  moments.run.dtype = DType::kBF16;
  moments.optimizer.gradient_dtype = DType::kBF16;
  moments.optimizer.moment_dtype = DType::kBF16;
  moments.optimizer.interleave = 0.5;
  moments.optimizer.timing = UpdateTiming::kSpeculative;
  moments.optimizer.undo_log = ByteSize{40000};
  cases.push_back({"bf16_moments.small_undo_log", std::move(moments), 3});
  return cases;
}

std::uint64_t digest(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

int run(const std::filesystem::path& output) {
  for (const Case& c : table()) {
    Recorder recorder;
    trace_run(recorder, c.config, c.ranks);
    const std::string text = recorder.canonical();
    std::printf("%-72s %6zu %016" PRIx64 "\n", c.name.c_str(), recorder.records().size(),
                digest(text));
    if (output.empty()) continue;
    std::filesystem::create_directories(output);
    std::ofstream(output / (c.name + ".txt")) << text;
  }
  return 0;
}

}  // namespace
}  // namespace strata::test

int main(int count, char** arguments) {
  const bool writes = count == 3 && std::string_view(arguments[1]) == "--output";
  if (count != 1 && !writes) {
    std::fputs("usage: trace_table [--output FOLDER]\n", stderr);
    return 2;
  }
  strata::log::configure(0, 1, "");  // to standard error: lines of the log have the time in them
  return strata::test::run(writes ? arguments[2] : "");
}
