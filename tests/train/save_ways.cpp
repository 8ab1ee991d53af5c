// Placements are listed by hand: each kind of update at each moment, alone and beside others.

#include "train/save_ways.h"

#include <algorithm>

#include "strata/model/families.h"
#include "strata/model/layout.h"

namespace strata::test {

std::string Numbers::to_string() const {
  return std::string(name_of(dtype)) + ", moments in " + std::string(name_of(moments)) +
         ", passes " + std::to_string(passes) + (tied ? ", tied" : "") + ", ranks " +
         std::to_string(ranks) + (clip < 1 ? ", clipped" : "");
}

std::string Placement::to_string() const {
  return std::string(enum_name(kUpdateTimingNames, timing)) + ", deferred " +
         std::to_string(deferred) + ", resident " + std::to_string(resident) + ", interleave " +
         std::to_string(interleave) + ", ring " + std::to_string(ring);
}

std::string to_string(Staged staged) {
  if (staged == Staged::kNone) return "nothing staged";
  return staged == Staged::kHalf ? "half staged" : "all staged";
}

std::vector<Placement> placements_of(const Numbers& numbers) {
  constexpr UpdateTiming kBefore = UpdateTiming::kBeforeUse;
  constexpr UpdateTiming kArrival = UpdateTiming::kOnArrival;
  constexpr UpdateTiming kSpeculative = UpdateTiming::kSpeculative;
  std::vector<Placement> all{
      {.timing = kBefore},
      {.timing = kBefore, .interleave = 1},
      {.timing = kBefore, .resident = 2, .interleave = 0.5},
      {.timing = kBefore, .resident = 5},
      {.timing = kSpeculative},
      {.timing = kSpeculative, .deferred = 2, .interleave = 0.5},
      {.timing = kSpeculative, .deferred = 1, .resident = 2},
      {.timing = kArrival},
      {.timing = kArrival, .deferred = 2, .ring = 4},
      {.timing = kArrival, .deferred = 3, .interleave = 1},
      {.timing = kArrival, .deferred = 1, .resident = 2, .interleave = 0.5},
      {.timing = kArrival, .resident = 5},
  };
  std::erase_if(all, [&](const Placement& p) {
    return (p.timing == kArrival && numbers.clip < 1) || (p.ring > 0 && numbers.passes > 1);
  });
  return all;
}

RunConfig save_config(const Numbers& numbers, const Placement& placement, Staged staged,
                      Execution execution) {
  RunConfig config = tiny_config();
  config.run.dtype = numbers.dtype;
  config.run.steps = 4;
  config.model.llama.tie_word_embeddings = numbers.tied;
  config.data.sequence_length = 5;
  config.schedule.sub_batches = 2;
  config.schedule.passes = numbers.passes;
  config.schedule.weight_slots = 2;
  config.schedule.resident_units = placement.resident;
  config.optimizer.gradient_dtype = numbers.dtype == DType::kBF16 ? DType::kBF16 : DType::kF32;
  config.optimizer.moment_dtype = numbers.moments;
  config.optimizer.timing = placement.timing;
  config.optimizer.grad_clip = numbers.clip;
  if (placement.timing == UpdateTiming::kOnArrival) config.optimizer.grad_clip.reset();
  if (placement.timing != UpdateTiming::kBeforeUse) {
    config.optimizer.deferred_units = placement.deferred;
  }
  config.optimizer.interleave = placement.interleave;
  if (placement.ring > 0) config.optimizer.gradient_ring = placement.ring;
  config.debug.execution = execution;
  config.debug.poison_slots = true;
  config.checkpoint = {};
  config.checkpoint.writers = 2;
  config.checkpoint.keep = 100;
  constexpr std::size_t kEnough = std::size_t{1} << 30;
  std::size_t bytes = staged == Staged::kAll ? kEnough : 0;
  if (staged == Staged::kHalf) {
    // 12 bytes a parameter on the host with f32 moments, 8 with bf16 ones, 6 in 8 bits, 24 in f64.
    std::size_t each = numbers.moments == DType::kBF16 ? 8 : 12;
    if (numbers.moments == DType::kU8) each = 6;
    if (numbers.dtype == DType::kF64) each = 24;
    std::int64_t elements = 0;
    for (const Block& block : make_layout(spec_of(config.model.llama)).blocks) {
      elements += block.shard_elements(numbers.ranks);
    }
    bytes = static_cast<std::size_t>(elements) * each / 2;
  }
  config.checkpoint.staging = ByteSize{bytes};
  return config;
}

Execution execution_of(int ranks, std::size_t turn) {
  if (ranks > 1) return Execution::kThreads;
  constexpr Execution kAll[] = {Execution::kThreads, Execution::kShuffled, Execution::kEager};
  return kAll[turn % std::size(kAll)];
}

}  // namespace strata::test
