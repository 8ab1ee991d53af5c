#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "strata/comm/communicator.h"
#include "strata/device/slot_ring.h"
#include "strata/model/unit_views.h"
#include "strata/store/access_plan.h"
#include "strata/store/training_state.h"

namespace strata {

/// The right to read one unit's weights on the compute lane, until it is destroyed.
struct UnitLease {
  Lease lease;        ///< of a slot; none for a unit that is used where it lives
  UnitWeights views;  ///< X, on the device
};

/// Weights on their way: home shards -> in-lane -> (all-gather over ranks) -> device slots. The
/// embedding and the head have a slot each, layers share a ring. A unit whose blocks are resident
/// and whole (one rank) is used where it lives.
class WeightStore {
 public:
  WeightStore(TrainingState& state, Communicator& ranks, Arena& device_arena, int layer_slots);
  static void plan(MemoryPlan& plan, const ModelLayout& layout, const StateOptions& options,
                   int layer_slots);

  /// The units that acquire() will be called for, in this order, until the next call.
  void begin_pass(std::vector<int> units);
  /// The unit's weights, for work submitted on `compute` from now on. Loads them if they are not
  /// on the device or on their way.
  [[nodiscard]] UnitLease acquire(int unit, Stream& compute, const Tag& tag);
  /// Starts to load what will be needed next, as far as slots are free.
  void prefetch(const Tag& tag);
  /// The block's weights change at home by work up to `event`: copies in slots are stale, and the
  /// next load, or use at home, waits.
  void updated(int block, Event event);
  /// How many loads ahead of its own an update's copies to the device may begin.
  static constexpr std::size_t kUpdateLead = 8;
  /// The block's weights will change at home by work that `submit` submits, which ends with
  /// updated(): copies in slots are stale, and `submit` is called ahead of the next load. Its
  /// copies to the device should come behind `turn`, the end of the load kUpdateLead before that
  /// one: a lane that always has something to copy keeps the link to itself.
  void update_later(int block, std::function<void(Event turn)> submit);
  /// Calls every `submit` that no load has called yet, in the order of blocks.
  void submit_updates();
  /// Bytes that loads have moved over this rank's link so far.
  [[nodiscard]] std::size_t loaded_bytes() const { return loaded_bytes_; }

 private:
  [[nodiscard]] SlotRing& ring_of(int unit);
  [[nodiscard]] UnitLease use_at_home(int unit, Stream& compute);
  [[nodiscard]] std::size_t block_bytes(int block) const;
  /// Fills the unit's slot; `needed_at` is the position of the access it is for. False if every
  /// slot is taken by something needed earlier.
  bool load(int unit, std::int64_t needed_at, const Tag& tag);
  void submit_update(int block);
  /// Copies of the block in slots are stale.
  void forget(int block);

  TrainingState& state_;
  Communicator& ranks_;
  Device& device_;
  SlotRing embedding_;
  SlotRing layers_;
  SlotRing head_;
  AccessPlan plan_;
  std::vector<Event> updated_;                                ///< per block
  std::vector<std::function<void(Event)>> pending_;           ///< per block: its update, or empty
  std::deque<Event> loads_ = std::deque<Event>(kUpdateLead);  ///< ends of the last ones
  std::size_t loaded_bytes_ = 0;
};

}  // namespace strata
