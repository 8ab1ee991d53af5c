// Keeps the waits and tickets of slots. A fill waits for every lane that used the slot, a use waits
// for the fill; a lease that ends records, per lane, what has been submitted by then. Slots stand
// in two orders, by need and by age, so that nobody scans them.

#include "strata/device/slot_ring.h"

#include <stdexcept>
#include <utility>

#include "strata/base/log.h"
#include "strata/device/device.h"

namespace strata {

namespace {

std::size_t place_of(Lane lane) { return static_cast<std::size_t>(lane); }

/// Returns why a fill waits for a lane that used the slot.
WaitFor why_wait_for(Lane user) {
  if (user == Lane::kHost) return WaitFor::kTaken;
  return user == Lane::kSave ? WaitFor::kSaved : WaitFor::kReuse;
}

}  // namespace

Lease::Lease(Lease&& other) noexcept { *this = std::move(other); }

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  end();
  ring_ = std::exchange(other.ring_, nullptr);
  slot_ = std::exchange(other.slot_, -1);
  users_ = std::exchange(other.users_, {});
  filler_ = std::exchange(other.filler_, nullptr);
  return *this;
}

Lease::~Lease() { end(); }

std::byte* Lease::data() const { return ring_->at(slot_).data; }

void Lease::use(Stream& stream, WaitFor why) {
  SlotRing::Slot& slot = ring_->at(slot_);
  if (slot.filled.lane != stream.lane()) {
    if (slot.filling) {
      throw std::logic_error("slot " + std::to_string(slot_) + " of " + ring_->name_ +
                             " would be used before filled() said that its content is submitted");
    }
    stream.wait(slot.filled, why);
  }
  users_[place_of(stream.lane())] = &stream;
}

void Lease::filled() { filled(*filler_); }

void Lease::filled(Stream& stream) {
  users_[place_of(stream.lane())] = &stream;
  SlotRing::Slot& slot = ring_->at(slot_);
  slot.filled = stream.record();
  slot.filling = false;
}

void Lease::end() noexcept {
  if (ring_ == nullptr) return;
  SlotRing::Slot& slot = ring_->at(slot_);
  for (Stream* user : users_) {
    if (user == nullptr) continue;
    try {
      slot.last_use[place_of(user->lane())] = user->record();
    } catch (const std::exception& error) {
      // The device has failed; what is submitted next says so as an error.
      log::error("end of a lease: {}", error.what());
    }
  }
  --slot.leases;
  ring_ = nullptr;
}

SlotRing::SlotRing(Arena& arena, std::string name, int count, std::size_t bytes_each)
    : name_(std::move(name)), bytes_each_(bytes_each), slots_(static_cast<std::size_t>(count)) {
  for (Slot& slot : slots_) slot.data = arena.allocate(name_, bytes_each);
  order_slots();
}

SlotRing::SlotRing(Allocator& memory, Space space, std::string name, int count,
                   std::size_t bytes_each)
    : name_(std::move(name)), bytes_each_(bytes_each) {
  memory.repeat(static_cast<std::size_t>(count),
                [&] { slots_.emplace_back().data = memory.allocate(space, name_, bytes_each); });
  order_slots();
}

SlotRing::Place SlotRing::need_of(int slot) const {
  return {-at(slot).content.needed_at, at(slot).content.filled_order, slot};
}

SlotRing::Place SlotRing::age_of(int slot) const {
  return {key(slot) == kNoKey ? 0 : 1, at(slot).content.filled_order, slot};
}

void SlotRing::order_slots() {
  for (int i = 0; i < count(); ++i) {
    by_need_.insert(need_of(i));
    by_age_.insert(age_of(i));
  }
}

void SlotRing::change(int slot_index, const Content& content) {
  Slot& slot = at(slot_index);
  auto need = by_need_.extract(need_of(slot_index));
  auto age = by_age_.extract(age_of(slot_index));
  const auto held = held_.find(slot.content.key);
  if (held != held_.end() && held->second == slot_index) held_.erase(held);
  slot.content = content;
  if (content.key != kNoKey) held_[content.key] = slot_index;
  need.value() = need_of(slot_index);
  age.value() = age_of(slot_index);
  by_need_.insert(std::move(need));
  by_age_.insert(std::move(age));
}

int SlotRing::first_closed(const Order& order) const {
  for (const Place& place : order) {
    ++looks_;
    if (!open(place.slot)) return place.slot;
  }
  return -1;
}

int SlotRing::find(std::int64_t key) const {
  const auto held = held_.find(key);
  return held == held_.end() ? -1 : held->second;
}

Lease SlotRing::fill(int slot_index, std::int64_t key, Stream& stream) {
  Slot& slot = at(slot_index);
  if (slot.leases > 0) {
    throw std::logic_error("slot " + std::to_string(slot_index) + " of " + name_ +
                           " would be filled while it is in use");
  }
  for (const Event& use : slot.last_use) {
    if (use.lane != stream.lane()) stream.wait(use, why_wait_for(use.lane));
  }
  slot.last_use = {};
  change(slot_index, {.key = key, .needed_at = 0, .filled_order = ++fills_});
  slot.filled = {stream.lane(), 0};
  slot.filling = true;
  slot.leases = 1;
  Lease lease(this, slot_index);
  lease.filler_ = &stream;
  lease.users_[place_of(stream.lane())] = &stream;
  if (stream.device().options().poison_slots) {
    stream.set(slot.data, 0xff, bytes_each_, {.phase = "poison"});
  }
  return lease;
}

Lease SlotRing::use(int slot_index, Stream& stream) {
  ++at(slot_index).leases;
  Lease lease(this, slot_index);
  lease.use(stream);
  return lease;
}

void SlotRing::needed_at(int slot, std::int64_t when) {
  Content content = at(slot).content;
  content.needed_at = when;
  change(slot, content);
}

void SlotRing::forget(int slot) { change(slot, {.filled_order = at(slot).content.filled_order}); }

void SlotRing::forget_all() {
  for (int i = 0; i < count(); ++i) forget(i);
}

}  // namespace strata
