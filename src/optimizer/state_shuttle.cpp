// Cuts a shard in chunks and sends each through a slot. A slot holds the chunk's weight, low half,
// m, v and their scales side by side, each aligned as an arena aligns.

#include "strata/optimizer/state_shuttle.h"

#include <algorithm>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/device/device.h"
#include "strata/store/chunks.h"

namespace strata {

namespace {

/// One slot is filled, one is updated and sent, and one more keeps either lane from waiting for the
/// other's last copy.
constexpr int kSlots = 3;

/// Returns the elements of the largest chunk that travels, or 0 if none does.
std::int64_t largest_chunk(const ModelLayout& layout, const StatePlan& plan, std::int64_t chunk) {
  std::int64_t largest = 0;
  for (const BlockId b : layout.blocks.ids()) {
    if (plan.blocks[b].updated_by != UpdatedBy::kShuttle) continue;
    largest = std::max(largest, layout.blocks[b].shard_elements(plan.ranks));
  }
  return std::min(largest, chunk);
}

std::size_t aligned(std::int64_t elements, DType dtype) {
  return round_up(static_cast<std::size_t>(elements) * size_of(dtype), Arena::kAlignment);
}

/// Returns the elements of the scales of so many parameters, or 0 if they have none.
std::int64_t scales_of(std::int64_t parameters, const StatePlan& plan) {
  if (plan.moment != kMomentCode) return 0;
  return (parameters + kMomentBlock - 1) / kMomentBlock * kMomentScales;
}

/// Returns the bytes of the largest chunk in a slot.
std::size_t slot_bytes(const ModelLayout& layout, const StatePlan& plan, std::int64_t chunk) {
  const std::int64_t n = largest_chunk(layout, plan, chunk);
  const std::size_t low = plan.has_low() ? aligned(n, DType::kI16) : 0;
  return aligned(n, plan.compute) + low +
         static_cast<std::size_t>(plan.moments) * aligned(n, plan.moment) +
         aligned(scales_of(n, plan), kMomentCode);
}

int slot_count(const ModelLayout& layout, const StatePlan& plan) {
  return largest_chunk(layout, plan, 1) > 0 ? kSlots : 0;
}

/// Returns views of the elements [begin, begin + count) of a shard.
BlockState part_of(const BlockState& whole, std::int64_t begin, std::int64_t count) {
  BlockState part;
  for (const auto tensor : kUpdatedTensors) {
    if (whole.*tensor) part.*tensor = slice_of(whole, tensor, begin, count);
  }
  part.grad = whole.grad.slice_rows(begin, count);
  part.begin = whole.begin + begin;
  return part;
}

/// Returns the same part with the tensors that travel placed in a slot.
BlockState placed_in(std::byte* slot, const BlockState& part) {
  BlockState placed = part;
  for (const auto tensor : kUpdatedTensors) {
    TensorView& view = placed.*tensor;
    if (!view) continue;
    view.data = slot;
    slot += aligned(view.elements(), view.dtype);
  }
  return placed;
}

/// Submits copies of the tensors that travel, and returns their bytes.
std::size_t copy(Stream& lane, const BlockState& to, const BlockState& from, const Tag& tag) {
  std::size_t bytes = 0;
  for (const auto tensor : kUpdatedTensors) {
    if (!(to.*tensor)) continue;
    const std::size_t size = (to.*tensor).bytes().bytes;
    lane.copy((to.*tensor).data, (from.*tensor).data, size, tag);
    bytes += size;
  }
  return bytes;
}

}  // namespace

StateShuttle::Memory::Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory,
                             std::int64_t chunk)
    : slots(memory, Space::kDevice, "optimizer.shuttle", slot_count(layout, plan),
            slot_bytes(layout, plan, chunk)) {}

std::size_t StateShuttle::step_bytes(const ModelLayout& layout, const StatePlan& plan) {
  std::size_t bytes = 0;
  for (const BlockId b : layout.blocks.ids()) {
    if (plan.blocks[b].updated_by != UpdatedBy::kShuttle) continue;
    bytes += plan.updated_bytes(layout.blocks[b].shard_elements(plan.ranks));
  }
  return bytes;
}

StateShuttle::StateShuttle(TrainingState& state, Memory memory, Device& device, std::int64_t chunk)
    : state_(state),
      chunk_(chunk),
      out_(device.stream(Lane::kOut)),
      ring_(std::move(memory.slots)),
      home_(state.blocks()) {}

Event StateShuttle::ship(BlockId block, Stream& in,
                         const std::function<void(const BlockState&, const Tag&)>& update,
                         const Tag& tag) {
  const BlockState& home = state_.block(block);
  Event& at_home = home_[block];
  in.wait(at_home, WaitFor::kUpdated);
  const auto ship_chunk = [&](std::int64_t begin, std::int64_t count, const Tag& of_chunk) {
    const BlockState part = part_of(home, begin, count);
    Lease slot = ring_.fill(ring_.oldest(), block.value(), in);
    const BlockState there = placed_in(slot.data(), part);
    copy(in, there, part, of_chunk);
    slot.filled();
    slot.use(out_);
    update(there, of_chunk);
    shipped_bytes_ += copy(out_, part, there, of_chunk);
  };
  for_each_chunk(home.weight.elements(), chunk_, tag, ship_chunk);
  at_home = out_.record();
  return at_home;
}

}  // namespace strata
