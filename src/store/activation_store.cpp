#include "strata/store/activation_store.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace strata {

void ActivationStore::plan(MemoryPlan& plan, const ActivationShape& shape, int slots) {
  plan.add_slots(Space::kDevice, "activations.slots", static_cast<std::size_t>(slots),
                 shape.cell_bytes());
  if (spills(shape, slots)) {
    plan.add_slots(Space::kPinned, "activations.spilled", static_cast<std::size_t>(shape.keys()),
                   shape.cell_bytes());
  }
}

ActivationStore::ActivationStore(const ActivationShape& shape, int slots, Arena& device_arena,
                                 Arena& pinned_arena)
    : shape_(shape),
      device_(device_arena.device()),
      ring_(device_arena, "activations.slots", slots, shape.cell_bytes()),
      spilled_(static_cast<std::size_t>(shape.keys())) {
  if (!spills(shape, slots)) return;
  for (int key = 0; key < shape.keys(); ++key) {
    homes_.push_back(pinned_arena.allocate("activations.spilled", shape.cell_bytes()));
  }
}

void ActivationStore::begin_pass(const std::vector<Read>& reads) {
  std::vector<std::int64_t> keys;
  keys.reserve(reads.size());
  for (const Read& read : reads) keys.push_back(key_of(read.boundary, read.cell));
  plan_ = AccessPlan(std::move(keys));
  ring_.forget_all();
  std::fill(spilled_.begin(), spilled_.end(), Event{});
}

ActivationLease ActivationStore::view(Lease lease, int boundary, int cell) const {
  const TensorView x(lease.data(), shape_.dtype, Shape{shape_.cell_tokens, shape_.hidden});
  return {std::move(lease), x, boundary, cell};
}

int ActivationStore::free_slot() const {
  return ring_.victim([&](std::int64_t key) { return plan_.next_use(key); });
}

ActivationLease ActivationStore::produce(int boundary, int cell, Stream& compute) {
  const int slot = free_slot();
  if (slot < 0) throw std::logic_error("every activation slot is in use");
  const std::int64_t lost = ring_.key(slot);
  const bool needed = lost != SlotRing::kNoKey && plan_.next_use(lost) != AccessPlan::kNever;
  if (needed && spilled_[static_cast<std::size_t>(lost)].ticket == 0) {
    throw std::logic_error("activation " + std::to_string(lost) + " would be lost");
  }
  return view(ring_.fill(slot, key_of(boundary, cell), compute), boundary, cell);
}

void ActivationStore::keep(ActivationLease lease, const Tag& tag) {
  lease.lease.filled();
  if (homes_.empty()) return;
  const auto key = static_cast<std::size_t>(key_of(lease.boundary, lease.cell));
  Stream& out = device_.stream(Lane::kOut);
  lease.lease.use(out);
  out.copy(homes_[key], lease.lease.data(), shape_.cell_bytes(), tag);
  spilled_bytes_ += shape_.cell_bytes();
  lease.lease.end();
  spilled_[key] = out.record();
}

bool ActivationStore::load(std::int64_t key, std::int64_t needed_at, const Tag& tag) {
  const int slot = free_slot();
  if (slot < 0) return false;
  const std::int64_t held = ring_.key(slot);
  if (held != SlotRing::kNoKey && plan_.next_use(held) <= needed_at) return false;
  const auto k = static_cast<std::size_t>(key);
  Stream& in = device_.stream(Lane::kActivationsIn);
  Lease lease = ring_.fill(slot, key, in);
  in.wait(spilled_[k], WaitFor::kFilled);
  in.copy(lease.data(), homes_[k], shape_.cell_bytes(),
          {tag.phase, tag.pass, tag.unit, static_cast<int>(key) % shape_.cells});
  loaded_bytes_ += shape_.cell_bytes();
  lease.filled();
  return true;
}

ActivationLease ActivationStore::acquire(int boundary, int cell, Stream& compute, const Tag& tag) {
  const std::int64_t key = key_of(boundary, cell);
  if (ring_.find(key) < 0 && !load(key, plan_.position(), tag)) {
    throw std::logic_error("no activation slot is free for boundary " + std::to_string(boundary));
  }
  plan_.advance(key);
  return view(ring_.use(ring_.find(key), compute), boundary, cell);
}

void ActivationStore::prefetch(const Tag& tag) {
  if (homes_.empty()) return;  // nothing ever leaves the device
  // More reads ahead than there are slots cannot be held anyway.
  const std::int64_t end = std::min(plan_.size(), plan_.position() + ring_.count());
  for (std::int64_t p = plan_.position(); p < end; ++p) {
    const std::int64_t key = plan_.key(p);
    if (ring_.find(key) >= 0) continue;
    if (spilled_[static_cast<std::size_t>(key)].ticket == 0) return;  // not yet produced
    if (!load(key, p, tag)) return;
  }
}

}  // namespace strata
