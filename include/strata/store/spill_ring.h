// A spill ring has slots on the device whose contents have homes in pinned memory. The activation
// store and the kept store are built on it: they say what a thing is, the ring says which slot it
// takes, when it leaves and when it comes back. All calls come from the submitting thread and none
// of them blocks; a call that would lose or read lost content throws std::logic_error.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "strata/device/slot_ring.h"
#include "strata/store/access_plan.h"

namespace strata {

/// A form says how the content of a slot travels to its home in pinned memory and back.
class HomeForm {
 public:
  virtual ~HomeForm() = default;
  /// Submits on `out` what takes the content of a slot of `bytes` bytes to its home. Returns the
  /// bytes that cross the link.
  virtual std::size_t send(Stream& out, std::byte* home, const std::byte* slot, std::size_t bytes,
                           const Tag& tag) = 0;
  /// Submits on `in` what brings it back into a slot. Returns the bytes that cross the link.
  virtual std::size_t fetch(Stream& in, std::byte* slot, const std::byte* home, std::size_t bytes,
                            const Tag& tag) = 0;
  /// Returns true if what comes back is not what was sent, bit by bit.
  [[nodiscard]] virtual bool lossy() const = 0;
};

/// Copies the content as it is.
class ExactForm final : public HomeForm {
 public:
  std::size_t send(Stream& out, std::byte* home, const std::byte* slot, std::size_t bytes,
                   const Tag& tag) override;
  std::size_t fetch(Stream& in, std::byte* slot, const std::byte* home, std::size_t bytes,
                    const Tag& tag) override;
  [[nodiscard]] bool lossy() const override { return false; }
};

/// Shares slots on the device among more things than there are slots. A pass writes each thing
/// once, on compute; its home gets a copy on the out lane, and if the slot went to another thing,
/// the content comes back on the activations_in lane. All reads of a pass are known before it
/// begins: what is read next is loaded ahead, into slots whose content is needed last. With a lossy
/// form the first read of a thing gets what was written, from its slot, and every later one gets
/// what the home holds, whether or not the slot is still there: so what is read does not depend on
/// the number of slots.
class SpillRing {
 public:
  /// Says which slot a new thing takes: the one whose content is needed last, or the one that was
  /// written longest ago, whose copy has had most time. The first keeps what is read soon; the
  /// second suits things that are written one after another and read much later.
  enum class Evict : std::uint8_t { kNeededLast, kOldest };
  /// Says what the reader does with the content. An update in place waits until the copy to the
  /// home has left the slot.
  enum class Use : std::uint8_t { kRead, kUpdate };

  /// A thing is what goes into a slot.
  struct Thing {
    std::size_t bytes = 0;      ///< in its slot
    std::byte* home = nullptr;  ///< pinned; null: it is never copied and must not lose its slot
  };

  /// `slots` are on the device. Thing i belongs to sub-batch i mod `cells`, by which traces number
  /// it.
  SpillRing(Device& device, SlotRing slots, std::vector<Thing> things, int cells, Evict evict,
            std::unique_ptr<HomeForm> form);

  /// Takes the things that the coming pass reads, in their order, and forgets what the last pass
  /// left.
  void begin_pass(const std::vector<std::int64_t>& reads);
  /// Returns a slot to write `thing` into on `compute`. Throws std::logic_error if every slot is
  /// leased, or if the one to give up holds what is still needed and is not at home.
  [[nodiscard]] Lease produce(std::int64_t thing, Stream& compute);
  /// Says that the work that writes the thing is submitted: it may be read, and is sent home if it
  /// has a home and will be read from there.
  void keep(Lease lease, std::int64_t thing, const Tag& tag);
  /// Returns the content of the thing that is read next, loaded if it is not in a slot. Throws
  /// std::logic_error if that is not `thing`, or if it was not written in this pass.
  [[nodiscard]] Lease acquire(std::int64_t thing, Stream& compute, const Tag& tag,
                              Use use = Use::kRead);
  /// Starts to load what will be read next, as far as slots are free.
  void prefetch(const Tag& tag);

  /// Returns the bytes that have gone home so far, as they crossed the link.
  [[nodiscard]] std::size_t spilled_bytes() const { return spilled_bytes_; }
  /// Returns the bytes that have come back so far, as they crossed the link.
  [[nodiscard]] std::size_t loaded_bytes() const { return loaded_bytes_; }
  /// Returns how many slots and planned reads were looked at so far; tests bound it per access.
  [[nodiscard]] std::int64_t looks() const { return looks_ + ring_.looks(); }

 private:
  // A key below count() means a thing as it was written. A key from count() on means the thing as
  // it came back from home; only lossy forms have such keys.
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(things_.size()); }
  [[nodiscard]] std::size_t thing_of(std::int64_t key) const {
    return static_cast<std::size_t>(key % count());
  }
  [[nodiscard]] std::int64_t home_key(std::int64_t thing) const {
    return form_->lossy() ? thing + count() : thing;
  }
  /// Returns true if the content of this key can be loaded from its home.
  [[nodiscard]] bool at_home(std::int64_t key) const {
    return key == home_key(static_cast<std::int64_t>(thing_of(key))) &&
           sent_[thing_of(key)].ticket > 0;
  }
  /// Fills a slot with the content of `key`. What it held is lost.
  [[nodiscard]] Lease fill(int slot, std::int64_t key, Stream& stream);
  /// Loads the content of `key` for the read at position `needed_at`. Returns false if every slot
  /// holds something that is leased or needed earlier.
  bool load(std::int64_t key, std::int64_t needed_at, const Tag& tag);

  Device& device_;
  SlotRing ring_;
  std::vector<Thing> things_;
  std::vector<Event> sent_;  ///< per thing: when its home was written
  int cells_;
  Evict evict_;
  std::unique_ptr<HomeForm> form_;
  AccessPlan plan_;
  std::size_t spilled_bytes_ = 0;
  std::size_t loaded_bytes_ = 0;
  std::int64_t looks_ = 0;
};

}  // namespace strata
