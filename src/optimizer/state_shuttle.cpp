#include "strata/optimizer/state_shuttle.h"

#include <algorithm>

#include "strata/base/bytes.h"
#include "strata/device/device.h"

namespace strata {

namespace {

/// One that is filled, one that is updated and sent, and one so that neither lane waits for the
/// other's last copy.
constexpr int kSlots = 3;

/// Of an interleaved shard; 0 if there is none.
std::int64_t largest_chunk(const ModelLayout& layout, const StateOptions& options,
                           std::int64_t chunk) {
  std::int64_t largest = 0;
  for (int b = 0; b < static_cast<int>(layout.blocks.size()); ++b) {
    if (!options.interleaved(b)) continue;
    const Block& block = layout.blocks[static_cast<std::size_t>(b)];
    largest = std::max(largest, block.shard_elements(options.ranks));
  }
  return std::min(largest, chunk);
}

std::size_t aligned(std::int64_t elements, DType dtype) {
  return round_up(static_cast<std::size_t>(elements) * size_of(dtype), Arena::kAlignment);
}

std::size_t slot_bytes(const ModelLayout& layout, const StateOptions& options, std::int64_t chunk) {
  const std::int64_t n = largest_chunk(layout, options, chunk);
  const std::size_t low = options.compute == DType::kBF16 ? aligned(n, DType::kI16) : 0;
  return aligned(n, options.compute) + low + 2 * aligned(n, TrainingState::moment_storage(options));
}

int slot_count(const ModelLayout& layout, const StateOptions& options) {
  return largest_chunk(layout, options, 1) > 0 ? kSlots : 0;
}

/// Elements [begin, begin + count) of a shard.
BlockState part_of(const BlockState& whole, std::int64_t begin, std::int64_t count) {
  BlockState part;
  for (const auto tensor : kUpdatedTensors) {
    if (whole.*tensor) part.*tensor = (whole.*tensor).slice_rows(begin, count);
  }
  part.grad = whole.grad.slice_rows(begin, count);
  part.begin = whole.begin + begin;
  return part;
}

/// The same with what travels in a slot.
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

/// Returns the bytes.
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

void StateShuttle::plan(MemoryPlan& plan, const ModelLayout& layout, const StateOptions& options,
                        std::int64_t chunk) {
  plan.add_slots(Space::kDevice, "optimizer.shuttle",
                 static_cast<std::size_t>(slot_count(layout, options)),
                 slot_bytes(layout, options, chunk));
}

std::size_t StateShuttle::step_bytes(const ModelLayout& layout, const StateOptions& options) {
  std::size_t bytes = 0;
  for (int b = 0; b < static_cast<int>(layout.blocks.size()); ++b) {
    if (!options.interleaved(b)) continue;
    const Block& block = layout.blocks[static_cast<std::size_t>(b)];
    bytes += static_cast<std::size_t>(block.shard_elements(options.ranks)) *
             TrainingState::updated_bytes(options);
  }
  return bytes;
}

StateShuttle::StateShuttle(TrainingState& state, Arena& device_arena, std::int64_t chunk)
    : state_(state),
      chunk_(chunk),
      out_(device_arena.device().stream(Lane::kOut)),
      ring_(device_arena, "optimizer.shuttle", slot_count(state.layout(), state.options()),
            slot_bytes(state.layout(), state.options(), chunk)),
      home_(static_cast<std::size_t>(state.blocks())) {}

Event StateShuttle::ship(int block, Stream& in,
                         const std::function<void(const BlockState& part)>& update,
                         const Tag& tag) {
  const BlockState& home = state_.block(block);
  Event& at_home = home_[static_cast<std::size_t>(block)];
  in.wait(at_home, WaitFor::kUpdated);
  for (std::int64_t done = 0; done < home.weight.elements(); done += chunk_) {
    const std::int64_t count = std::min(chunk_, home.weight.elements() - done);
    const BlockState part = part_of(home, done, count);
    Lease slot = ring_.fill(ring_.oldest(), block, in);
    const BlockState there = placed_in(slot.data(), part);
    copy(in, there, part, tag);
    slot.filled();
    slot.use(out_);
    update(there);
    shipped_bytes_ += copy(out_, part, there, tag);
  }
  at_home = out_.record();
  return at_home;
}

}  // namespace strata
