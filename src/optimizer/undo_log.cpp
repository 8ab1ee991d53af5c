// Copies the state of speculated blocks into the log and back, by the threads of the pool, and
// finds whether a step missed. Blocks get their place in the log from the last to the first.

#include "strata/optimizer/undo_log.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/log.h"

namespace strata {

std::size_t UndoLog::slot_bytes(const ModelLayout& layout, const StatePlan& plan, BlockId block) {
  return plan.updated_bytes(layout.blocks[block].shard_elements(plan.ranks));
}

UndoLog::Memory::Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory)
    : slots(layout.blocks.size()) {
  for (int i = slots.last().value(); i >= 0; --i) {  // in the order in which gradients arrive
    const BlockId b(i);
    if (plan.blocks[b].updated != UpdateTime::kSpeculated) continue;
    slots[b] = memory.allocate(Space::kPageable, "optimizer.undo_log", slot_bytes(layout, plan, b));
  }
  numbers = memory.allocate(Space::kPageable, "optimizer.speculation", sizeof(Numbers));
  nonfinite = memory.tensor(Space::kPageable, "optimizer.speculation", DType::kI32,
                            {static_cast<std::int64_t>(layout.blocks.size())});
}

UndoLog::UndoLog(TrainingState& state, const Memory& memory, ThreadPool& pool)
    : state_(state),
      pool_(pool),
      slots_(memory.slots),
      numbers_(new(memory.numbers) Numbers),
      nonfinite_(memory.nonfinite) {
  std::fill_n(nonfinite_.as<std::int32_t>(), nonfinite_.elements(), 0);
}

/// Compares what the guess could have got wrong: whether the step is applied, and the clip factor.
/// All other numbers of the step were known.
bool UndoLog::settle(const AdamWScalars& actual) {
  Numbers& n = *numbers_;
  n.missed = n.early.apply != actual.apply ||
             (actual.apply != 0 && n.early.grad_factor != actual.grad_factor);
  n.again = actual;
  if (!n.missed) n.again.apply = 0;
  count(n.missed);
  return !n.missed;
}

void UndoLog::count(bool missed) {
  constexpr int kWindow = 50;  // steps: the first ones of a run may clip more than the rest
  misses_ += missed ? 1 : 0;
  if (++steps_ < kWindow) return;
  if (2 * misses_ > kWindow) {
    log::warn(
        "{} of the last {} steps were clipped or not finite, so that their early updates were "
        "undone and done again; optimizer.timing = before_use is faster for such steps",
        misses_, kWindow);
  }
  steps_ = 0;
  misses_ = 0;
}

void UndoLog::save(BlockId block, Stream& host, const Tag& tag) {
  const auto accesses = [&] {
    Accesses all({numbers()}, {slot_of(block)});
    for (const TensorView& view : state_of(block)) all.reads.push_back(view.bytes());
    return all;
  };
  host.host_task("save_state", accesses, tag,
                 [this, block] {
                   if (numbers_->early.apply != 0) copy(block, Way::kIntoLog);
                 },
                 {.kind = CostKind::kPooled});
}

void UndoLog::restore(BlockId block, Stream& host, const Tag& tag) {
  const TensorView flag = nonfinite(block);
  const auto accesses = [&] {
    Accesses all({numbers(), slot_of(block)}, {flag.bytes()});
    for (const TensorView& view : state_of(block)) all.writes.push_back(view.bytes());
    return all;
  };
  host.host_task("restore_state", accesses, tag,
                 [this, block, flag] {
                   if (!numbers_->missed) return;
                   copy(block, Way::kBack);
                   *flag.as<std::int32_t>() = 0;
                 },
                 {.kind = CostKind::kRare});
}

std::vector<TensorView> UndoLog::state_of(BlockId block) const {
  const BlockState& s = state_.block(block);
  std::vector<TensorView> views;
  for (const auto tensor : kUpdatedTensors) {
    if (s.*tensor) views.push_back(s.*tensor);
  }
  return views;
}

ByteRange UndoLog::slot_of(BlockId block) const {
  return {slots_[block], slot_bytes(state_.layout(), state_.plan(), block)};
}

ByteRange UndoLog::numbers() const {
  return {reinterpret_cast<const std::byte*>(numbers_), sizeof(Numbers)};
}

void UndoLog::copy(BlockId block, Way way) const {
  constexpr std::size_t kPiece = kMiB;
  std::byte* slot = slots_[block];
  for (const TensorView& view : state_of(block)) {
    auto* home = static_cast<std::byte*>(view.data);
    std::byte* to = way == Way::kIntoLog ? slot : home;
    const std::byte* from = way == Way::kIntoLog ? home : slot;
    const std::size_t bytes = view.bytes().bytes;
    pool_.parallel_for(static_cast<std::int64_t>((bytes + kPiece - 1) / kPiece), 1,
                       [&](std::int64_t begin, std::int64_t end) {
                         const std::size_t first = static_cast<std::size_t>(begin) * kPiece;
                         const std::size_t last = static_cast<std::size_t>(end) * kPiece;
                         std::memcpy(to + first, from + first, std::min(last, bytes) - first);
                       });
    slot += bytes;
  }
}

}  // namespace strata
