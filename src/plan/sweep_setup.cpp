// Sizes that follow from what sweeps have to hold.

#include "strata/plan/sweep_setup.h"

#include <algorithm>

#include "strata/base/narrow.h"

namespace strata {

namespace {

constexpr std::int64_t kHeadRows = 64;
constexpr int kKvGroups = 4;  // of sequences, where keys and values travel

}  // namespace

void SweepSetup::describe_sweeps(const LlamaConfig& of, const GenerationNeeds& needs,
                                 int kv_slots) {
  model = of;
  sequences = needs.sequences;
  const std::int64_t sweep_tokens = std::max(needs.sweep_tokens, needs.sequences);
  const std::int64_t cell_tokens = std::min(needs.cell_tokens, sweep_tokens);
  const std::int64_t sampled = needs.scores ? sweep_tokens : needs.sequences;
  sizes = {.compute = needs.compute,
           .positions = needs.context,
           .cell_tokens = cell_tokens,
           .head_rows = std::min(sampled, kHeadRows)};
  // A sequence has a segment in each cell that it is in: one, and one more where a cell ends in it.
  // Cells also end where a group does.
  sweep = {.tokens = sweep_tokens,
           .segments = 2 * needs.sequences + sweep_tokens / cell_tokens + 1,
           .sampled = sampled,
           .seen = needs.penalties ? needs.sequences * needs.context : 0,
           .accumulator = accumulator_of(needs.compute)};
  const std::int64_t groups =
      std::min(needs.sequences, std::int64_t{needs.groups.value_or(kv_slots == 0 ? 1 : kKvGroups)});
  kv = {.layers = narrow<int>(of.num_hidden_layers),
        .groups = narrow<int>(groups),
        .rows = (needs.sequences + groups - 1) / groups * needs.context,
        .heads = of.kv_heads(),
        .head_size = of.head_size(),
        .dtype = needs.compute,
        .slots = kv_slots};
}

void SweepSetup::list_memory(MemoryPlan& plan) const {
  const LlamaForward::Memory forward(model, sizes, plan);
  const KvStore::Memory keys_and_values(kv, plan);
  const TokenStore::Memory tokens(sweep, plan);
  static_cast<void>(take_residual_stream(*this, plan));
}

TensorView take_residual_stream(const SweepSetup& s, Allocator& memory) {
  return memory.tensor(Space::kDevice, "residual_stream", s.sizes.compute,
                       {s.sweep.tokens, s.model.hidden_size});
}

}  // namespace strata
