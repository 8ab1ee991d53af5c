// Lays out what each cell keeps and spills by its levels, and leaves the copying of spilled cells
// to a SpillRing. A cell that spills nothing never touches the ring.

#include "strata/store/kept_store.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/device/device.h"

namespace strata {

namespace {

/// Returns the first cell from `begin` on that keeps or spills other levels than that one.
std::size_t end_of_equal(const KeepPlan& plan, std::size_t begin) {
  std::size_t end = begin;
  while (end < plan.levels.size() && plan.levels[end] == plan.levels[begin] &&
         plan.reach[end] == plan.reach[begin]) {
    ++end;
  }
  return end;
}

/// Returns the bytes that the cell that spills most puts into a slot.
std::size_t slot_bytes(std::span<const KeptTensor> tensors, const KeepPlan& plan) {
  std::size_t largest = 0;
  for (std::size_t i = 0; i < plan.levels.size(); i = end_of_equal(plan, i)) {
    largest = std::max(largest, spilled_bytes(tensors, plan.levels[i], plan.reach[i]));
  }
  return largest;
}

/// Returns the number of slots to take: more than there are cells that spill would be of no use.
int slot_count(const KeepPlan& plan) {
  int cells = 0;
  for (std::size_t i = 0; i < plan.levels.size(); ++i) cells += plan.spills(i) ? 1 : 0;
  return std::min(cells, plan.slots);
}

}  // namespace

std::size_t KeepPlan::count(KeepLevel level) const {
  return static_cast<std::size_t>(std::count(levels.begin(), levels.end(), level));
}

std::size_t KeepPlan::count_spilled(KeepLevel level) const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < levels.size(); ++i) count += spills(i) && reach[i] == level ? 1 : 0;
  return count;
}

KeepLevel KeepPlan::least_reach() const {
  return reach.empty() ? KeepLevel::kRecompute : *std::min_element(reach.begin(), reach.end());
}

std::size_t kept_bytes(std::span<const KeptTensor> tensors, KeepLevel level) {
  std::size_t bytes = 0;
  for (const KeptTensor& tensor : tensors) {
    if (tensor.from == level) bytes += round_up(tensor.bytes(), Arena::kAlignment);
  }
  return bytes;
}

std::size_t spilled_bytes(std::span<const KeptTensor> tensors, KeepLevel from, KeepLevel to) {
  std::size_t bytes = 0;
  for (const KeepLevel level : kKeepLevels) {
    if (level > from && level <= to) bytes += kept_bytes(tensors, level);
  }
  return bytes;
}

KeptStore::Memory::Memory(std::span<const KeptTensor> tensors, const KeepPlan& plan,
                          Allocator& memory)
    : slots(memory, Space::kDevice, "kept.slots", 0, 0) {
  for (std::size_t i = 0, end = 0; i < plan.levels.size(); i = end) {
    end = end_of_equal(plan, i);
    const std::size_t bytes = strata::spilled_bytes(tensors, plan.levels[i], plan.reach[i]);
    memory.repeat(end - i, [&] {
      KeptActivations& cell = kept.emplace_back();
      for (const KeptTensor& tensor : tensors) {
        if (plan.levels[i] < tensor.from) continue;
        cell.*tensor.view = memory.tensor(Space::kDevice, tensor.name, tensor.dtype, tensor.shape);
      }
      homes.push_back(bytes == 0 ? nullptr
                                 : memory.allocate(Space::kPinned, "kept.spilled", bytes));
    });
  }
  slots =
      SlotRing(memory, Space::kDevice, "kept.slots", slot_count(plan), slot_bytes(tensors, plan));
}

KeptStore::KeptStore(std::span<const KeptTensor> tensors, const KeepPlan& plan, Arenas& arenas)
    : KeptStore(tensors, plan, Memory(tensors, plan, arenas), arenas.device()) {}

KeptStore::KeptStore(std::span<const KeptTensor> tensors, const KeepPlan& plan, Memory memory,
                     Device& device)
    : tensors_(tensors.begin(), tensors.end()), plan_(plan), kept_(std::move(memory.kept)) {
  if (memory.slots.count() == 0) return;
  std::vector<SpillRing::Thing> things(kept_.size());
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    things[i] = {.bytes = strata::spilled_bytes(tensors_, plan_.levels[i], plan_.reach[i]),
                 .home = memory.homes[i]};
  }
  ring_.emplace(device, std::move(memory.slots), std::move(things), plan_.cells,
                SpillRing::Evict::kOldest, std::make_unique<ExactForm>());
}

void KeptStore::begin_pass(const std::vector<Read>& reads) {
  if (!ring_) return;
  std::vector<std::int64_t> cells;
  for (const Read& read : reads) {
    const std::size_t i = plan_.index(read.layer, read.cell);
    if (plan_.spills(i)) cells.push_back(static_cast<std::int64_t>(i));
  }
  ring_->begin_pass(cells);
}

/// Returns views of the cell's tensors: of those on the device, and of those that are spilled, side
/// by side in the slot.
KeptLease KeptStore::view(Lease lease, int layer, int cell) const {
  const std::size_t i = plan_.index(layer, cell);
  KeptLease result{std::move(lease), kept_[i], layer, cell};
  if (!result.lease) return result;
  std::byte* at = result.lease.data();
  for (const KeptTensor& tensor : tensors_) {
    if (tensor.from <= plan_.levels[i] || tensor.from > plan_.reach[i]) continue;
    result.activations.*tensor.view = TensorView(at, tensor.dtype, tensor.shape);
    at += round_up(tensor.bytes(), Arena::kAlignment);
  }
  return result;
}

KeptLease KeptStore::fill(int layer, int cell, Stream& compute) {
  const std::size_t i = plan_.index(layer, cell);
  if (compute.device().options().poison_slots) {
    for (const KeptTensor& tensor : tensors_) {
      const TensorView& view = kept_[i].*tensor.view;
      if (view) compute.set(view.data, 0xff, tensor.bytes(), {.phase = "poison"});
    }
  }
  Lease lease;
  if (plan_.spills(i)) lease = ring_->produce(static_cast<std::int64_t>(i), compute);
  return view(std::move(lease), layer, cell);
}

void KeptStore::keep(KeptLease lease, const Tag& tag) {
  if (!lease.lease) return;
  const std::size_t i = plan_.index(lease.layer, lease.cell);
  ring_->keep(std::move(lease.lease), static_cast<std::int64_t>(i), tag);
}

KeptLease KeptStore::acquire(int layer, int cell, Stream& compute, const Tag& tag) {
  const std::size_t i = plan_.index(layer, cell);
  Lease lease;
  if (plan_.spills(i)) {
    lease = ring_->acquire(static_cast<std::int64_t>(i), compute, tag, SpillRing::Use::kUpdate);
  }
  return view(std::move(lease), layer, cell);
}

void KeptStore::prefetch(const Tag& tag) {
  if (ring_) ring_->prefetch(tag);
}

}  // namespace strata
