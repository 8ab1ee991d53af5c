// Buffers that are filled, used and filled again, and the leases that say who may touch them.
// Stores own rings and hand leases to the schedule; a ring knows up to which ticket each lane uses
// a slot, so nobody above handles events of buffers. All calls come from the submitting thread and
// none blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "strata/device/allocator.h"
#include "strata/device/arena.h"
#include "strata/device/stream.h"

namespace strata {

class SlotRing;

/// The right to touch one slot from some lanes. It ends on destruction: then the slot knows, lane
/// by lane, up to which ticket it is in use. Move-only; must not outlive the ring.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  [[nodiscard]] explicit operator bool() const { return ring_ != nullptr; }
  /// Returns the slot's memory. Needs a lease that has not ended.
  [[nodiscard]] std::byte* data() const;
  [[nodiscard]] int slot() const { return slot_; }
  /// Lets `stream` use the slot too: it waits for the content. `why` tells traces what the reader
  /// is: a collective waits for its input. Throws std::logic_error on another lane than the filling
  /// one before filled().
  void use(Stream& stream, WaitFor why = WaitFor::kFilled);
  /// Says that the filling lane has submitted the whole content (called on the lease that fill()
  /// gave). `stream` is the lane that wrote last; the default is the lane that fill() was given.
  void filled();
  void filled(Stream& stream);
  /// Ends the lease now.
  void end() noexcept;

 private:
  friend class SlotRing;
  Lease(SlotRing* ring, int slot) : ring_(ring), slot_(slot) {}
  SlotRing* ring_ = nullptr;
  int slot_ = -1;
  std::array<Stream*, kLaneCount> users_{};
  Stream* filler_ = nullptr;
};

/// K equal buffers that are filled, used and filled again. A slot remembers the key of what it
/// holds, so a reader can find content that is still there. The memory belongs to the arena. Every
/// call takes at most logarithmic time in K, but for forget_all().
class SlotRing {
 public:
  static constexpr std::int64_t kNoKey = -1;
  /// Says for needed_at() that content is not needed again.
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  /// Takes `count` times `bytes_each` from the arena, under `name`. Throws OutOfMemory.
  SlotRing(Arena& arena, std::string name, int count, std::size_t bytes_each);
  /// Takes `count` buffers of one space; the ring must not be used if `memory` only counts.
  SlotRing(Allocator& memory, Space space, std::string name, int count, std::size_t bytes_each);

  [[nodiscard]] int count() const { return static_cast<int>(slots_.size()); }
  [[nodiscard]] std::size_t bytes_each() const { return bytes_each_; }
  /// Returns the slot that was filled last with `key`, if it still holds it, or -1.
  [[nodiscard]] int find(std::int64_t key) const;
  /// Says when the content of a slot is needed next: larger is later. A fill says 0.
  void needed_at(int slot, std::int64_t when);
  /// Returns the slot to fill next, among those without an open lease: the one whose content is
  /// needed last, as needed_at() said. An empty one is never needed. Ties go to the slot filled
  /// longest ago. Returns -1 if every slot is open.
  [[nodiscard]] int victim() const { return first_closed(by_need_); }
  /// Returns the slot filled longest ago among those without an open lease, empty ones first; -1 if
  /// every slot is open.
  [[nodiscard]] int oldest() const { return first_closed(by_age_); }
  /// Returns the key of what the slot holds, or kNoKey.
  [[nodiscard]] std::int64_t key(int slot) const { return at(slot).content.key; }
  /// Returns whether a lease on the slot is open.
  [[nodiscard]] bool open(int slot) const { return at(slot).leases > 0; }
  /// Begins to fill a slot: `stream` waits for everybody who used it. The slot then holds `key`.
  /// Throws std::logic_error if a lease on the slot is still open.
  [[nodiscard]] Lease fill(int slot, std::int64_t key, Stream& stream);
  /// Opens a lease to read, or update in place, what the slot holds: `stream` waits for the
  /// content.
  [[nodiscard]] Lease use(int slot, Stream& stream);
  /// Says that the content is not needed again: the slot counts as empty for victim().
  void forget(int slot);
  /// Forgets the content of all slots.
  void forget_all();
  /// Returns how many slots were looked at so far to choose one; tests bound it per fill.
  [[nodiscard]] std::int64_t looks() const { return looks_; }

 private:
  friend class Lease;
  /// What orders slots.
  struct Content {
    std::int64_t key = kNoKey;
    std::int64_t needed_at = kNever;
    std::int64_t filled_order = 0;
  };
  struct Slot {
    std::byte* data = nullptr;
    Content content;
    Event filled;          ///< passed when the content is there
    bool filling = false;  ///< between fill() and filled(): only the filling lane may touch it
    std::array<Event, kLaneCount> last_use{};
    int leases = 0;
  };
  [[nodiscard]] Slot& at(int slot) { return slots_.at(static_cast<std::size_t>(slot)); }
  [[nodiscard]] const Slot& at(int slot) const { return slots_.at(static_cast<std::size_t>(slot)); }

  /// The place of a slot in an order of slots.
  struct Place {
    std::int64_t first = 0;
    std::int64_t filled_order = 0;
    int slot = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  using Order = std::set<Place>;
  [[nodiscard]] Place need_of(int slot) const;
  [[nodiscard]] Place age_of(int slot) const;
  void order_slots();
  /// Changes the content of a slot, and so its place in both orders.
  void change(int slot, const Content& content);
  /// Returns the first slot without an open lease, or -1. Few leases are open at a time.
  [[nodiscard]] int first_closed(const Order& order) const;

  std::string name_;
  std::size_t bytes_each_ = 0;
  std::vector<Slot> slots_;
  std::unordered_map<std::int64_t, int> held_;  ///< slots by key
  Order by_need_;
  Order by_age_;
  std::int64_t fills_ = 0;
  mutable std::int64_t looks_ = 0;
};

}  // namespace strata
