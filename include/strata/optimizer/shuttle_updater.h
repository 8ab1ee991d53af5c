// Updates interleaved blocks: their state lives on the host, visits the device for the update and
// goes home again (Deep Optimizer States, 2024). On arrival the state travels on weights_in, which
// has a lead; before a load it travels on activations_in and waits for its turn, so that it does
// not keep the link from weights that are needed first. BlockUpdates makes it and calls it on the
// submitting thread.

#pragma once

#include "strata/optimizer/state_shuttle.h"
#include "strata/optimizer/updater.h"

namespace strata {

/// Updates the blocks of rows whose `updated_by` is kShuttle.
class ShuttleUpdater final : public Updater {
 public:
  ShuttleUpdater(const UpdaterParts& parts, StateShuttle shuttle)
      : Updater(parts), shuttle_(std::move(shuttle)) {}

  /// Ships the block as soon as its gradient is there; `decided` is always given.
  void arrived(BlockId block, Arrival& arrival, std::optional<Event> decided,
               const Tag& tag) override;
  /// Ships the block before the next load of its weights, not earlier than its turn.
  void before_load(BlockId block, Event decided, const Tag& tag) override;
  /// Returns the bytes of state that have crossed the link so far, each way.
  [[nodiscard]] std::size_t shipped_bytes() const { return shuttle_.shipped_bytes(); }

 private:
  void ship(BlockId block, Stream& in, Event decided, const Tag& tag);

  StateShuttle shuttle_;
};

}  // namespace strata
