// The weight store takes weights from their homes to the device. The schedule acquires a unit
// before it computes and gets views of whole blocks; the store loads ahead, gathers over ranks,
// decodes what travels in fewer bits, and waits for updates. The optimizer tells it which weights
// change, and hears of loads before they are submitted. All calls come from the submitting thread
// and none of them blocks.

#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "strata/comm/collectives.h"
#include "strata/device/slot_ring.h"
#include "strata/model/unit_views.h"
#include "strata/ops/kernels.h"
#include "strata/store/access_plan.h"
#include "strata/store/packed_block.h"
#include "strata/store/training_state.h"

namespace strata {

/// The lease is the right to read the weights of one unit on the compute lane, until it is
/// destroyed.
struct UnitLease {
  Lease lease;        ///< of a slot; empty for a unit that is used where it lives
  UnitWeights views;  ///< X, on the device, or an embedding in pinned memory
};

/// Hears of loads before they are submitted, for instance to submit the updates that they wait for.
class LoadObserver {
 public:
  virtual ~LoadObserver() = default;
  /// Says that the weights of `block` are loaded next. The load waits for the work that this call
  /// tells the store of by WeightStore::updated().
  virtual void before_load(BlockId block) = 0;
};

/// Takes weights to the device: home shards go over weights_in (and through an all-gather over
/// ranks on comm) to device slots. The embedding and the head have a slot each, and layers share a
/// ring. A unit whose blocks are all resident and whole (one rank) is used where it lives, and an
/// embedding also in pinned memory if the plan says so. Packed weights are decoded by acquire(), to
/// a place that the next layer with such weights takes over, so at most one is acquired at a time.
class WeightStore {
 public:
  /// These slots are on the device. A ring has no more slots than units pass through it, so it has
  /// none where all weights are read where they live.
  struct Memory {
    Memory(const ModelLayout& layout, const StatePlan& plan, int layer_slots, Allocator& memory);

    SlotRing embedding;
    SlotRing layers;
    SlotRing head;
    std::byte* decoded = nullptr;  ///< the weights of the layer that is visited, if it is packed
  };

  /// Takes its slots from `arenas`, at most `layer_slots` of them for the layers. The arguments
  /// outlive the store. Throws OutOfMemory.
  WeightStore(TrainingState& state, Collectives& collectives, Kernels& kernels, Arenas& arenas,
              int layer_slots);

  /// Tells `observer` of every load from now on. It outlives the last load. Throws std::logic_error
  /// if the store has an observer.
  void observe(LoadObserver& observer);
  /// Takes the units for which acquire() will be called until the next begin_pass(), in their
  /// order.
  void begin_pass(const std::vector<UnitId>& units);
  /// Returns the weights of a unit, for work that is submitted on `compute` from now on. Loads them
  /// if they are neither on the device nor on their way. Throws std::logic_error if no slot is
  /// free, or if the unit is not the one planned next.
  [[nodiscard]] UnitLease acquire(UnitId unit, Stream& compute, const Tag& tag);
  /// Starts to load what will be needed next, as far as slots are free.
  void prefetch(const Tag& tag);
  /// Says that the weights of a block change at home by work up to `event`. Copies in slots are
  /// stale from now on, and the next load, or use at home, waits.
  void updated(BlockId block, Event event);
  /// The copies of an update to the device may begin so many loads before the load it belongs to.
  static constexpr std::size_t kUpdateLead = 8;
  /// Says that the weights of a block will change at home before their next load, by work that the
  /// observer submits when it hears of that load. Copies in slots are stale from now on.
  void will_update(BlockId block);
  /// Returns the end of the load kUpdateLead before the next one. The copies of an update that
  /// belongs to the next load should come after it: a lane that always has something to copy keeps
  /// the link to itself.
  [[nodiscard]] Event turn() const { return loads_.front(); }
  /// Returns the bytes that loads have moved over this rank's link so far.
  [[nodiscard]] std::size_t loaded_bytes() const { return loaded_bytes_; }
  /// Returns how many slots and planned units were looked at so far; tests bound it per unit.
  [[nodiscard]] std::int64_t looks() const { return looks_ + memory_.layers.looks(); }

 private:
  [[nodiscard]] SlotRing& ring_of(UnitId unit);
  [[nodiscard]] UnitLease use_at_home(UnitId unit, Stream& compute, const Tag& tag);
  /// Returns where the weights of a block that lies at `data` can be read: there, or, for a packed
  /// block, where `compute` decodes them to.
  [[nodiscard]] std::byte* decode(BlockId block, std::byte* data, Stream& compute, const Tag& tag);
  /// Returns the bytes of a whole block in a slot, padding included.
  [[nodiscard]] std::size_t block_bytes(BlockId block) const;
  /// Fills a slot with the unit; `needed_at` is the position of the access that it is for. Returns
  /// false if every slot holds something that is leased or needed earlier.
  bool load(UnitId unit, std::int64_t needed_at, const Tag& tag);
  /// Makes slots forget units that hold a stale copy of the block.
  void forget(BlockId block);
  /// Tells slots when the pass needs next what they hold.
  void renew_needs(SlotRing& ring);

  TrainingState& state_;
  Collectives& collectives_;
  Kernels& kernels_;
  Device& device_;
  Memory memory_;
  AccessPlan plan_;
  PerBlock<WeightShape> shards_;
  PerBlock<std::optional<PackedBlock>> packed_;  ///< how a block lies, if it is packed
  PerBlock<std::vector<UnitId>> readers_;        ///< the units that read a block
  PerBlock<Event> updated_;
  LoadObserver* observer_ = nullptr;
  std::deque<Event> loads_ = std::deque<Event>(kUpdateLead);  ///< ends of the last ones
  std::size_t loaded_bytes_ = 0;
  std::int64_t looks_ = 0;
};

}  // namespace strata
