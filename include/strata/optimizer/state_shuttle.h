// The shuttle takes interleaved state to the device and back. The shuttle updater calls it once for
// each update of a block, on the submitting thread; nothing blocks. It owns the slots on the
// device; the homes belong to the training state.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "strata/device/slot_ring.h"
#include "strata/store/training_state.h"

namespace strata {

/// Takes the state of interleaved blocks to the device for their update and back to its pinned
/// home, chunk by chunk through a few slots: in on the lane that the caller names, updated and out
/// on the out lane.
class StateShuttle {
 public:
  /// A chunk has so many elements by default: 16 MiB of split weights. Another number is a multiple
  /// of kMomentBlock where moments are codes.
  static constexpr std::int64_t kChunk = std::int64_t{1} << 23;

  /// The chunks share these slots. There are none if no row is updated by a shuttle.
  struct Memory {
    Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory,
           std::int64_t chunk = kChunk);

    SlotRing slots;  ///< device
  };

  /// `chunk` is the one that `memory` was made with. State and device outlive the shuttle.
  StateShuttle(TrainingState& state, Memory memory, Device& device, std::int64_t chunk = kChunk);

  /// Returns the bytes that cross the link in a step, each way.
  static std::size_t step_bytes(const ModelLayout& layout, const StatePlan& plan);

  /// Submits the update of a block: its state comes on `in`, is updated and goes home on the out
  /// lane. `update` submits on the out lane what changes a part of the block; the part has its
  /// state in a slot, its gradient in its home on the device, and `begin` is its first element in
  /// the block. It gets the tag of the chunk. Returns the event after which everything is home.
  Event ship(BlockId block, Stream& in,
             const std::function<void(const BlockState& part, const Tag& tag)>& update,
             const Tag& tag);
  /// Returns the bytes that have crossed the link so far, each way.
  [[nodiscard]] std::size_t shipped_bytes() const { return shipped_bytes_; }

 private:
  TrainingState& state_;
  std::int64_t chunk_;
  Stream& out_;
  SlotRing ring_;
  PerBlock<Event> home_;  ///< when the state was last written at home
  std::size_t shipped_bytes_ = 0;
};

}  // namespace strata
