// Updates interleaved blocks: their state lives on the host, visits the device for the update and
// goes home again (Deep Optimizer States, 2024). On arrival the state travels on the lane of
// weights, which has a lead; ahead of a load it travels on that of activations and waits for its
// turn, so that it does not keep the link from weights that are needed first.

#pragma once

#include "strata/optimizer/state_shuttle.h"
#include "strata/optimizer/updater.h"

namespace strata {

class ShuttleUpdater final : public Updater {
 public:
  ShuttleUpdater(const UpdaterParts& parts, StateShuttle shuttle)
      : Updater(parts), shuttle_(std::move(shuttle)) {}

  void arrived(BlockId block, Arrival& arrival, std::optional<Event> decided,
               const Tag& tag) override;
  void before_load(BlockId block, Event decided, Event turn, const Tag& tag) override;
  /// Returns the bytes of state that have crossed the link so far, each way.
  [[nodiscard]] std::size_t shipped_bytes() const { return shuttle_.shipped_bytes(); }

 private:
  void ship(BlockId block, Stream& in, Event decided, const Tag& tag);

  StateShuttle shuttle_;
};

}  // namespace strata
