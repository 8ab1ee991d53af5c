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

  /// Takes no memory if no block is interleaved.
  StateShuttle(TrainingState& state, Arena& device_arena, std::int64_t chunk = kChunk);
  static void plan(MemoryPlan& plan, const ModelLayout& layout, const StateOptions& options,
                   std::int64_t chunk = kChunk);

  /// What crosses the link in a step, each way.
  static std::size_t step_bytes(const ModelLayout& layout, const StateOptions& options);

  /// `update` submits on the out-lane what changes a part of a block: its state on the device, its
  /// gradient in its home there, `begin` its first element in the block. Returns the event after
  /// which everything is home.
  Event ship(int block, Stream& in, const std::function<void(const BlockState& part)>& update,
             const Tag& tag);
  /// Bytes that have crossed the link so far, each way.
  [[nodiscard]] std::size_t shipped_bytes() const { return shipped_bytes_; }

 private:
  TrainingState& state_;
  std::int64_t chunk_;
  Stream& out_;
  SlotRing ring_;
  std::vector<Event> home_;  ///< per block: when its state was last written at home
  std::size_t shipped_bytes_ = 0;
};

}  // namespace strata
