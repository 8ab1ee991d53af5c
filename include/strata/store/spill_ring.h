#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "strata/device/slot_ring.h"
#include "strata/store/access_plan.h"

namespace strata {

/// How the content of a slot travels to its home in pinned memory and back.
class HomeForm {
 public:
  virtual ~HomeForm() = default;
  /// Both submit on the stream they are given and return the bytes that cross the link. `bytes` are
  /// those of the slot.
  virtual std::size_t send(Stream& out, std::byte* home, const std::byte* slot, std::size_t bytes,
                           const Tag& tag) = 0;
  virtual std::size_t fetch(Stream& in, std::byte* slot, const std::byte* home, std::size_t bytes,
                            const Tag& tag) = 0;
  /// True if what comes back is not what was sent.
  [[nodiscard]] virtual bool lossy() const = 0;
};

/// The content as it is.
class ExactForm final : public HomeForm {
 public:
  std::size_t send(Stream& out, std::byte* home, const std::byte* slot, std::size_t bytes,
                   const Tag& tag) override;
  std::size_t fetch(Stream& in, std::byte* slot, const std::byte* home, std::size_t bytes,
                    const Tag& tag) override;
  [[nodiscard]] bool lossy() const override { return false; }
};

/// Slots on the device for more things than there are slots. A pass writes each thing once, on
/// compute; its home in pinned memory gets a copy on the out-lane, and if the slot went to another
/// thing, the content comes back on the activations_in lane. All reads of a pass are known before
/// it begins: what is read next is loaded ahead, into slots whose content is needed last.
/// With a lossy form the first read of a thing gets what was written, from its slot, and every
/// later one what the home holds, whether or not the slot is still there: what is read does not
/// depend on the number of slots.
class SpillRing {
 public:
  /// Which slot a new thing takes: of that needed last, or of that written longest ago, whose copy
  /// has had most time. The first keeps what is read soon, the second suits things that are written
  /// one after another and read much later.
  enum class Evict : std::uint8_t { kNeededLast, kOldest };
  /// Updating what was read waits until the copy to the home has left the slot.
  enum class Use : std::uint8_t { kRead, kUpdate };

  struct Thing {
    std::size_t bytes = 0;      ///< in its slot
    std::byte* home = nullptr;  ///< null: is never copied and must not lose its slot
  };

  /// `slots` are on the device. `cells`: thing i is of sub-batch i mod cells, for traces.
  SpillRing(Device& device, SlotRing slots, std::vector<Thing> things, int cells, Evict evict,
            std::unique_ptr<HomeForm> form);

  /// The things that the coming pass reads, in order. Forgets what the last pass left.
  void begin_pass(const std::vector<std::int64_t>& reads);
  /// A slot to write `thing` into.
  [[nodiscard]] Lease produce(std::int64_t thing, Stream& compute);
  /// The content is written: makes it readable, and sends it home if it is read from there.
  void keep(Lease lease, std::int64_t thing, const Tag& tag);
  /// The content of the thing that is read next, which must be `thing`; loaded if need be.
  [[nodiscard]] Lease acquire(std::int64_t thing, Stream& compute, const Tag& tag,
                              Use use = Use::kRead);
  /// Starts to load what will be read next, as far as slots are free.
  void prefetch(const Tag& tag);

  /// Bytes that have crossed the link so far, both ways.
  [[nodiscard]] std::size_t spilled_bytes() const { return spilled_bytes_; }
  [[nodiscard]] std::size_t loaded_bytes() const { return loaded_bytes_; }

 private:
  // Keys of slots and reads: a thing as it was written, and from things_.size() on as it came back,
  // if that makes a difference.
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(things_.size()); }
  [[nodiscard]] std::size_t thing_of(std::int64_t key) const {
    return static_cast<std::size_t>(key % count());
  }
  [[nodiscard]] std::int64_t home_key(std::int64_t thing) const {
    return form_->lossy() ? thing + count() : thing;
  }
  [[nodiscard]] bool at_home(std::int64_t key) const {
    return key == home_key(static_cast<std::int64_t>(thing_of(key))) &&
           sent_[thing_of(key)].ticket > 0;
  }
  [[nodiscard]] int needed_last() const;
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
};

}  // namespace strata
