// Waits and tickets of slots. A fill waits for every lane that used the slot, a use waits for the
// fill; a lease that ends records, per lane, what has been submitted by then.

#include "strata/device/slot_ring.h"

#include <stdexcept>
#include <utility>

#include "strata/base/log.h"
#include "strata/device/device.h"

namespace strata {

namespace {
std::size_t index_of(Lane lane) { return static_cast<std::size_t>(lane); }
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
  users_[index_of(stream.lane())] = &stream;
}

void Lease::filled() { filled(*filler_); }

void Lease::filled(Stream& stream) {
  users_[index_of(stream.lane())] = &stream;
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
      slot.last_use[index_of(user->lane())] = user->record();
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
}

SlotRing::SlotRing(Allocator& memory, Space space, std::string name, int count,
                   std::size_t bytes_each)
    : name_(std::move(name)), bytes_each_(bytes_each), slots_(static_cast<std::size_t>(count)) {
  for (Slot& slot : slots_) slot.data = memory.allocate(space, name_, bytes_each);
}

int SlotRing::find(std::int64_t key) const {
  for (int i = 0; i < count(); ++i) {
    if (at(i).key == key) return i;
  }
  return -1;
}

int SlotRing::victim(const std::function<std::int64_t(std::int64_t key)>& next_use) const {
  int best = -1;
  std::int64_t best_use = 0;
  for (int i = 0; i < count(); ++i) {
    const Slot& slot = at(i);
    if (slot.leases > 0) continue;
    const std::int64_t use = slot.key == kNoKey ? INT64_MAX : next_use(slot.key);
    if (best < 0 || use > best_use ||
        (use == best_use && slot.filled_order < at(best).filled_order)) {
      best = i;
      best_use = use;
    }
  }
  return best;
}

int SlotRing::oldest() const {
  return victim([](std::int64_t) { return std::int64_t{0}; });
}

Lease SlotRing::fill(int slot_index, std::int64_t key, Stream& stream) {
  Slot& slot = at(slot_index);
  if (slot.leases > 0) {
    throw std::logic_error("slot " + std::to_string(slot_index) + " of " + name_ +
                           " would be filled while it is in use");
  }
  for (const Event& use : slot.last_use) {
    const WaitFor why = use.lane == Lane::kHost ? WaitFor::kTaken : WaitFor::kReuse;
    if (use.lane != stream.lane()) stream.wait(use, why);
  }
  slot.last_use = {};
  slot.key = key;
  slot.filled_order = ++fills_;
  slot.filled = {stream.lane(), 0};
  slot.filling = true;
  slot.leases = 1;
  Lease lease(this, slot_index);
  lease.filler_ = &stream;
  lease.users_[index_of(stream.lane())] = &stream;
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

void SlotRing::forget_all() {
  for (Slot& slot : slots_) slot.key = kNoKey;
}

}  // namespace strata
