// Decides, thing by thing, which slot is given up and when content comes back. The order of reads
// is an AccessPlan; waiting is left to the slots' leases and to one event for each home.

#include "strata/store/spill_ring.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "strata/device/device.h"

namespace strata {

std::size_t ExactForm::send(Stream& out, std::byte* home, const std::byte* slot, std::size_t bytes,
                            const Tag& tag) {
  out.copy(home, slot, bytes, tag);
  return bytes;
}

std::size_t ExactForm::fetch(Stream& in, std::byte* slot, const std::byte* home, std::size_t bytes,
                             const Tag& tag) {
  in.copy(slot, home, bytes, tag);
  return bytes;
}

SpillRing::SpillRing(Device& device, SlotRing slots, std::vector<Thing> things, int cells,
                     Evict evict, std::unique_ptr<HomeForm> form)
    : device_(device),
      ring_(std::move(slots)),
      things_(std::move(things)),
      sent_(things_.size()),
      cells_(cells),
      evict_(evict),
      form_(std::move(form)) {}

void SpillRing::begin_pass(const std::vector<std::int64_t>& reads) {
  std::vector<bool> read(things_.size());
  std::vector<std::int64_t> keys;
  keys.reserve(reads.size());
  for (const std::int64_t thing : reads) {
    const auto i = static_cast<std::size_t>(thing);
    keys.push_back(read[i] ? home_key(thing) : thing);
    read[i] = true;
  }
  plan_ = AccessPlan(std::move(keys));
  ring_.forget_all();
  std::fill(sent_.begin(), sent_.end(), Event{});
}

Lease SpillRing::fill(int slot, std::int64_t key, Stream& stream) {
  const std::int64_t held = ring_.key(slot);
  if (held != SlotRing::kNoKey) plan_.lost(held);
  Lease lease = ring_.fill(slot, key, stream);
  ring_.needed_at(slot, plan_.next_use(key));
  return lease;
}

Lease SpillRing::produce(std::int64_t thing, Stream& compute) {
  const int slot = evict_ == Evict::kOldest ? ring_.oldest() : ring_.victim();
  if (slot < 0) throw std::logic_error("every activation slot is in use");
  const std::int64_t lost = ring_.key(slot);
  const bool needed = lost != SlotRing::kNoKey && plan_.next_use(lost) != AccessPlan::kNever;
  if (needed && !at_home(lost)) {
    throw std::logic_error("activation " + std::to_string(lost) + " would be lost");
  }
  return fill(slot, thing, compute);
}

void SpillRing::keep(Lease lease, std::int64_t thing, const Tag& tag) {
  lease.filled();
  const Thing& of = things_[static_cast<std::size_t>(thing)];
  if (of.home == nullptr || plan_.next_use(home_key(thing)) == AccessPlan::kNever) return;
  Stream& out = device_.stream(Lane::kOut);
  lease.use(out);
  spilled_bytes_ += form_->send(out, of.home, lease.data(), of.bytes, tag);
  lease.end();
  sent_[static_cast<std::size_t>(thing)] = out.record();
}

bool SpillRing::load(std::int64_t key, std::int64_t needed_at, const Tag& tag) {
  const int slot = ring_.victim();
  if (slot < 0) return false;
  const std::int64_t held = ring_.key(slot);
  if (held != SlotRing::kNoKey && plan_.next_use(held) <= needed_at) return false;
  const std::size_t thing = thing_of(key);
  Stream& in = device_.stream(Lane::kActivationsIn);
  Lease lease = fill(slot, key, in);
  in.wait(sent_[thing], WaitFor::kFilled);
  const int cell = static_cast<int>(thing) % cells_;
  loaded_bytes_ += form_->fetch(in, lease.data(), things_[thing].home, things_[thing].bytes,
                                {tag.phase, tag.pass, tag.unit, cell});
  lease.filled();
  return true;
}

Lease SpillRing::acquire(std::int64_t thing, Stream& compute, const Tag& tag, Use use) {
  const std::int64_t position = plan_.position();
  if (position >= plan_.size() ||
      thing_of(plan_.key(position)) != static_cast<std::size_t>(thing)) {
    throw std::logic_error("read " + std::to_string(position) + " of activation " +
                           std::to_string(thing) + " was not planned");
  }
  const std::int64_t key = plan_.key(position);
  if (ring_.find(key) < 0 && !(at_home(key) && load(key, position, tag))) {
    throw std::logic_error("activation " + std::to_string(thing) +
                           " is not on the device, and cannot be loaded");
  }
  const int slot = ring_.find(key);
  plan_.advance(key);
  ring_.needed_at(slot, plan_.next_use(key));
  if (use == Use::kUpdate) {
    compute.wait(sent_[static_cast<std::size_t>(thing)], WaitFor::kReuse);
  }
  return ring_.use(slot, compute);
}

void SpillRing::prefetch(const Tag& tag) {
  // More reads ahead than there are slots cannot be held anyway.
  const std::int64_t end = std::min(plan_.size(), plan_.position() + ring_.count());
  for (std::int64_t p = plan_.first_absent(); p < end; ++p, ++looks_) {
    const std::int64_t key = plan_.key(p);
    const bool there = ring_.find(key) >= 0;
    if (!there && !(at_home(key) && load(key, p, tag))) return;  // not yet produced, or no slot
    plan_.is_there();
  }
}

}  // namespace strata
