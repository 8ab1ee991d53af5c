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
/// on the out-lane.
class StateShuttle {
 public:
  /// Elements of a chunk by default: 16 MiB of what is least, split weights.
  static constexpr std::int64_t kChunk = std::int64_t{1} << 23;

  /// Slots for chunks; none if no row is updated by a shuttle.
  struct Memory {
    Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory,
           std::int64_t chunk = kChunk);

    SlotRing slots;  ///< device
  };

  StateShuttle(TrainingState& state, Memory memory, Device& device, std::int64_t chunk = kChunk);

  /// Returns the bytes that cross the link in a step, each way.
  static std::size_t step_bytes(const ModelLayout& layout, const StatePlan& plan);

  /// `update` submits on the out-lane what changes a part of a block: its state on the device, its
  /// gradient in its home there, `begin` its first element in the block. Returns the event after
  /// which everything is home.
  Event ship(BlockId block, Stream& in, const std::function<void(const BlockState& part)>& update,
             const Tag& tag);
  /// Bytes that have crossed the link so far, each way.
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
