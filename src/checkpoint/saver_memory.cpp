// Takes the memory of saves: buffers in which windows of files are gathered, copies for the blocks
// that are staged, and the passage of those on the device that are not.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/checkpoint/state_saver.h"
#include "strata/store/take_for_blocks.h"

namespace strata {

namespace {

bool on_device(const BlockPlan& row) { return row.weight == Home::kDevice; }

/// Returns the bytes of a block's shard in a save.
std::size_t shard_bytes(const ModelLayout& layout, const StatePlan& plan, BlockId block) {
  return plan.updated_bytes(layout.blocks[block].shard_elements(plan.ranks));
}

/// Returns the blocks that have memory of their own to be copied to, as many as `staging` holds:
/// first those on the device, whose copies the out lane would wait for, and from the one that is
/// updated last on, since those in front are written soonest.
PerBlock<std::uint8_t> staged_blocks(const ModelLayout& layout, const StatePlan& plan,
                                     std::size_t staging) {
  PerBlock<std::uint8_t> staged(layout.blocks.size());
  if (plan.replica > 0) return staged;
  std::vector<BlockId> last_first = update_order(plan);
  std::ranges::reverse(last_first);
  bool full = false;
  for (const bool device : {true, false}) {
    for (const BlockId b : last_first) {
      if (on_device(plan.blocks[b]) != device) continue;
      const std::size_t bytes = shard_bytes(layout, plan, b);
      full = full || bytes > staging;
      if (full) continue;
      staging -= bytes;
      staged[b] = 1;
    }
  }
  return staged;
}

/// Returns the bytes of pinned memory through which blocks on the device pass one after the other:
/// those of the largest.
std::size_t passage_bytes(const ModelLayout& layout, const StatePlan& plan) {
  std::size_t most = 0;
  if (plan.replica > 0) return most;
  for (const BlockId b : update_order(plan)) {
    if (on_device(plan.blocks[b])) most = std::max(most, shard_bytes(layout, plan, b));
  }
  return most;
}

/// Returns the bytes of a buffer for any window of the files of this model, without making them:
/// a plan is made too often for that.
std::size_t window_bytes(const ModelLayout& layout, const CheckpointTypes& types) {
  constexpr std::size_t kHeaders = 64 * kKiB;  // and the ends of flat tensors
  std::int64_t most = 0;
  for (const BlockId b : layout.blocks.ids()) {
    if (layout.is_trained(b)) most = std::max(most, layout.blocks[b].elements);
  }
  const std::size_t each =
      std::max(types.bytes_of(StatePart::kWeight), types.bytes_of(StatePart::kLow) +
                                                       types.bytes_of(StatePart::kM) +
                                                       types.bytes_of(StatePart::kV));
  const std::size_t scales =
      static_cast<std::size_t>(most / kMomentBlock + 1) * types.bytes_of(StatePart::kScale);
  return round_up(std::min(static_cast<std::size_t>(kHashWindow),
                           kHeaders + static_cast<std::size_t>(most) * each + scales),
                  kFileAlignment);
}

/// Returns the shape of the scales of so many codes.
Shape scales_shape(std::int64_t codes) { return {codes / kMomentBlock, kMomentScales}; }

/// Returns views of a block's shard in the passage.
BlockState in_passage(const ModelLayout& layout, const StatePlan& plan, BlockId block,
                      std::byte* passage) {
  const Shape shape{layout.blocks[block].shard_elements(plan.ranks)};
  const auto next_of = [&](DType dtype, const Shape& extents) {
    const TensorView view(passage, dtype, extents);
    passage += view.bytes().bytes;
    return view;
  };
  const auto next = [&](DType dtype) { return next_of(dtype, shape); };
  BlockState copy;
  copy.begin = shape[0] * plan.rank;
  copy.m = next(plan.moment);  // the widest first: all are aligned then
  if (plan.moments > 1) copy.v = next(plan.moment);
  copy.weight = next(plan.compute);
  if (plan.has_low()) copy.low = next(DType::kI16);
  if (plan.moment == kMomentCode) copy.scale = next_of(kMomentCode, scales_shape(shape[0]));
  return copy;
}

/// Takes memory for the copy of a block's shard.
BlockState take_copy(const ModelLayout& layout, const StatePlan& plan, BlockId block,
                     Allocator& memory) {
  const Space space = on_device(plan.blocks[block]) ? Space::kPinned : Space::kPageable;
  const Shape shape{layout.blocks[block].shard_elements(plan.ranks)};
  BlockState copy;
  copy.begin = shape[0] * plan.rank;
  copy.weight = memory.tensor(space, "checkpoint.staging", plan.compute, shape);
  if (plan.has_low()) {
    copy.low = memory.tensor(space, "checkpoint.staging", DType::kI16, shape);
  }
  copy.m = memory.tensor(space, "checkpoint.staging", plan.moment, shape);
  if (plan.moments > 1) {
    copy.v = memory.tensor(space, "checkpoint.staging", plan.moment, shape);
  }
  if (plan.moment == kMomentCode) {
    copy.scale = memory.tensor(space, "checkpoint.staging", kMomentCode, scales_shape(shape[0]));
  }
  return copy;
}

}  // namespace

StateSaver::Memory::Memory(const ModelLayout& layout, const StatePlan& plan, const SavePlan& saves,
                           Allocator& memory) {
  buffer_bytes = window_bytes(layout, saves.types) + kFileAlignment;
  buffers_bytes = static_cast<std::size_t>(saves.writers) * buffer_bytes + kFileAlignment;
  buffers = memory.allocate(Space::kPageable, "checkpoint.buffers", buffers_bytes);
  const PerBlock<std::uint8_t> copied = staged_blocks(layout, plan, saves.staging);
  passage = memory.allocate(Space::kPinned, "checkpoint.passage", passage_bytes(layout, plan));
  const auto take = [&](BlockId b) {
    staged.push_back(copied[b] != 0 ? take_copy(layout, plan, b, memory) : BlockState{});
    const bool passes = copied[b] == 0 && on_device(plan.blocks[b]) &&
                        plan.blocks[b].is_trained() && passage != nullptr;
    passing.push_back(passes ? in_passage(layout, plan, b, passage) : BlockState{});
  };
  take_for_blocks(layout, plan, memory, take, copied);
}

void StateSaver::Memory::add_staging(const ModelLayout& layout, const StatePlan& plan,
                                     std::size_t staging, Allocator& memory) {
  const PerBlock<std::uint8_t> copied = staged_blocks(layout, plan, staging);
  const auto take = [&](BlockId b) {
    if (copied[b] != 0) static_cast<void>(take_copy(layout, plan, b, memory));
  };
  take_for_blocks(layout, plan, memory, take, copied);
}

}  // namespace strata
