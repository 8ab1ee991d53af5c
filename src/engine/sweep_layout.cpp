// Computes the sizes of sweeps from what generation has to hold, and lists the memory that a sweep
// engine takes.

#include "strata/engine/sweep_layout.h"

#include <algorithm>

#include "strata/base/narrow.h"

namespace strata {

namespace {

constexpr int kKvGroups = 4;  // of sequences, where keys and values travel

std::int64_t sweep_tokens_of(const GenerationNeeds& needs, bool device_is_host) {
  return std::max(needs.sweep_tokens.value_or(usual_sweep_tokens(device_is_host)), needs.sequences);
}

}  // namespace

ForwardSizes forward_sizes(const GenerationNeeds& needs, bool device_is_host) {
  const std::int64_t sweep_tokens = sweep_tokens_of(needs, device_is_host);
  const std::int64_t cell_tokens =
      std::min(needs.cell_tokens.value_or(usual_cell_tokens(device_is_host)), sweep_tokens);
  // On a GPU the projection to logits should read its weights once for all sequences.
  const std::int64_t head_rows = device_is_host ? 64 : 256;
  // It also has much to run side by side: the parts of a sequence's keys.
  const bool parts = !device_is_host && !needs.scores;
  return {.compute = needs.compute,
          .positions = needs.context,
          .cell_tokens = cell_tokens,
          .head_rows = std::min(needs.scores ? sweep_tokens : needs.sequences, head_rows),
          .singles = parts ? std::min(cell_tokens, needs.sequences) : 0};
}

void SweepLayout::describe_sweeps(const GenerationNeeds& needs, bool device_is_host, int kv_slots) {
  const AttentionSpec& attention = spec.common().attention;
  sequences = needs.sequences;
  sizes = forward_sizes(needs, device_is_host);
  const std::int64_t sweep_tokens = sweep_tokens_of(needs, device_is_host);
  // A sequence has a segment in each cell that it is in: one, and one more where a cell ends in it.
  // Cells also end where a group does.
  sweep = {.tokens = sweep_tokens,
           .segments = 2 * needs.sequences + sweep_tokens / sizes.cell_tokens + 1,
           .sampled = needs.scores ? sweep_tokens : needs.sequences,
           .seen = needs.penalties ? needs.sequences * needs.context : 0,
           .accumulator = accumulator_of(needs.compute)};
  const std::int64_t groups =
      std::min(needs.sequences, std::int64_t{needs.groups.value_or(kv_slots == 0 ? 1 : kKvGroups)});
  const std::int64_t of_group = (needs.sequences + groups - 1) / groups;
  kv = {.layers = spec.layers(),
        .groups = narrow<int>(groups),
        .rows = of_group * needs.context,
        .heads = attention.kv_heads,
        .head_size = attention.head_size,
        .dtype = needs.compute,
        .kept = needs.kv_dtype,
        .slots = kv_slots};
  if (needs.host_attention && kv_slots > 0) {
    kv.attended_layers = std::max(1, kv.layers - needs.fetched_layers);
  }
  keep_windows(needs, of_group);
  if (needs.kv_dtype == KvDType::kInt8) sizes.int8_rows = kv.most_rows();
}

void SweepLayout::keep_windows(const GenerationNeeds& needs, std::int64_t sequences_of_group) {
  KvWindow window{.step = needs.window_step};
  for (const LayerSpec& layer : spec.kinds) {
    window.window = std::max(window.window, std::min(layer.attention.window, needs.context));
  }
  if (!window.releases() || window.rows() >= needs.context) return;
  kv.window = window;
  kv.window_rows = sequences_of_group * window.rows();
  for (int i = 0; i < spec.layers(); ++i) {
    kv.windowed.push_back(spec.layer(i).attention.window > 0);
  }
  // A sequence's tokens of a cell are a segment, and one more after each release.
  sweep.window_segments = 2 * sweep.segments + sweep.tokens / window.step;
}

void SweepLayout::list_memory(MemoryPlan& plan) const {
  const LlamaForward::Memory forward(spec, sizes, plan);
  const KvStore::Memory keys_and_values(kv, plan);
  if (kv.attended_at_home()) const HostAttention::Memory attention(kv, host_attention(), plan);
  const TokenStore::Memory tokens(sweep, plan);
  static_cast<void>(take_residual_stream(*this, plan));
}

SweepStream take_residual_stream(const SweepLayout& s, Allocator& memory) {
  const auto take = [&](std::string_view name) {
    return memory.tensor(Space::kDevice, name, s.sizes.compute, {s.sweep.tokens, s.spec.width});
  };
  const TensorView x = take("residual_stream");
  return {.x = x, .adds = take("residual_stream.adds")};
}

}  // namespace strata
