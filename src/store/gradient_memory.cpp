// Takes the memory of the gradient store: accumulators, sums, and places on the way home. Each is
// as large as the largest block needs that uses it, and absent where none does.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "store/gradient_sizes.h"
#include "strata/store/gradient_store.h"
#include "strata/store/take_for_blocks.h"

namespace strata {

namespace {

/// One chunk is added by the host while the next one lands.
constexpr int kLandingSlots = 2;

/// Returns the largest of what `size` says of each block that is trained, or 0 if none is.
template <class Size>
auto largest(const ModelLayout& layout, const StatePlan& plan, const Size& size) {
  decltype(size(BlockId())) most = 0;
  for (const BlockId b : layout.blocks.ids()) {
    if (plan.blocks[b].is_trained()) most = std::max(most, size(b));
  }
  return most;
}

/// Returns the bytes of a block's shard in a dtype.
std::size_t shard_bytes(const ModelLayout& layout, const StatePlan& plan, BlockId block,
                        DType dtype) {
  return static_cast<std::size_t>(layout.blocks[block].shard_elements(plan.ranks)) * size_of(dtype);
}

/// Returns the ring of the trained blocks of a kind, whose slots are as large as the largest of
/// them. It has none where no block of the kind is trained.
SlotRing accumulators(const ModelLayout& layout, UnitKind kind, const StatePlan& plan,
                      const char* name, int slots, Allocator& memory) {
  const std::size_t bytes = largest(layout, plan, [&](BlockId b) {
    const Block& block = layout.blocks[b];
    return block.kind == kind ? accumulator_bytes(block, plan) : 0;
  });
  return {memory, Space::kDevice, name, bytes > 0 ? slots : 0, bytes};
}

bool any(const StatePlan& plan, bool (*is)(const BlockPlan&)) {
  return std::any_of(plan.blocks.begin(), plan.blocks.end(), is);
}
bool summed_on_host(const BlockPlan& row) { return row.sums == SumPlace::kHost; }
bool passes(const BlockPlan& row) { return row.gradient == Home::kPassing; }

/// Returns the bytes of the largest layer's shard in its gradient dtype: a slot of the ring, or the
/// passing place.
std::size_t layer_gradient_bytes(const ModelLayout& layout, const StatePlan& plan) {
  return largest(layout, plan, [&](BlockId b) {
    const bool layer = layout.blocks[b].kind == UnitKind::kLayer;
    return layer ? shard_bytes(layout, plan, b, plan.blocks[b].gradient_dtype) : 0;
  });
}

/// Returns the bytes of the largest piece of a shard that is rounded or lands at once: a chunk, or
/// the largest shard if that is smaller.
std::size_t piece_bytes(const ModelLayout& layout, const StatePlan& plan) {
  const std::size_t shard = largest(layout, plan, [&](BlockId b) {
    return std::max(shard_bytes(layout, plan, b, plan.blocks[b].gradient_dtype),
                    shard_bytes(layout, plan, b, plan.gradient));
  });
  return std::min(plan.chunk_bytes(), shard);
}

}  // namespace

std::size_t accumulator_bytes(const Block& block, const StatePlan& plan) {
  return static_cast<std::size_t>(block.padded_elements(plan.ranks)) *
         size_of(accumulator_of(plan.compute));
}

std::int64_t norm_count(const ModelLayout& layout, BlockId block, const StatePlan& plan) {
  if (summed_on_host(plan.blocks[block]) || !plan.blocks[block].is_trained()) return 0;
  return SquaredNorm::partials(layout.blocks[block].shard_elements(plan.ranks));
}

bool rounds(const StatePlan& plan) {
  return plan.gradient != accumulator_of(plan.compute) && plan.compute != DType::kF64;
}

GradientStore::Memory::Memory(const ModelLayout& layout, const StatePlan& plan, int layer_slots,
                              Allocator& memory)
    : embedding(accumulators(layout, UnitKind::kEmbedding, plan, "gradients.embedding", 1, memory)),
      layers(accumulators(layout, UnitKind::kLayer, plan, "gradients.layers", layer_slots, memory)),
      head(accumulators(layout, UnitKind::kHead, plan, "gradients.head", 1, memory)),
      rounded(memory.allocate(Space::kDevice, "gradients.rounded",
                              rounds(plan) ? piece_bytes(layout, plan) : 0)),
      passing(memory.allocate(Space::kDevice, "gradients.passing",
                              any(plan, passes) ? layer_gradient_bytes(layout, plan) : 0)),
      norms(memory.tensor(
          Space::kDevice, "gradients.norms", DType::kF64,
          {largest(layout, plan, [&](BlockId b) { return norm_count(layout, b, plan); })})),
      ring(memory, Space::kPinned, "state.gradient_ring", plan.gradient_ring,
           layer_gradient_bytes(layout, plan)),
      landing(memory, Space::kPinned, "gradients.landing", kLandingSlots,
              any(plan, summed_on_host) ? piece_bytes(layout, plan) : 0) {
  take_for_blocks(layout, plan, memory, [&](BlockId b) {
    const bool comes_whole = plan.blocks[b].is_trained() && !summed_on_host(plan.blocks[b]);
    const bool on_device = plan.blocks[b].sums == SumPlace::kDevice;
    home_norms.push_back({memory, Space::kPinned, "gradients.norms", comes_whole ? 1 : 0,
                          static_cast<std::size_t>(norm_count(layout, b, plan)) * sizeof(double)});
    sums.push_back({memory, Space::kDevice, "gradients.sums", on_device ? 1 : 0,
                    shard_bytes(layout, plan, b, accumulator_of(plan.compute))});
  });
}

std::int64_t GradientStore::host_partials(const ModelLayout& layout, const StatePlan& plan) {
  return SquaredNorm::partials(largest(layout, plan, [&](BlockId b) {
    const bool on_host = summed_on_host(plan.blocks[b]);
    return on_host ? layout.blocks[b].shard_elements(plan.ranks) : 0;
  }));
}

}  // namespace strata
