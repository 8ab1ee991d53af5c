// Submits early updates, and what confirms or repeats them. Both run on the host lane.

#include "strata/optimizer/speculative_updater.h"

namespace strata {

void SpeculativeUpdater::arrived(BlockId block, Arrival& arrival, std::optional<Event> /*decided*/,
                                 const Tag& tag) {
  Stream& host = lane(Lane::kHost);
  begin(block, host);
  undo_.save(block, host, tag);
  p_.rule.submit(p_.host_kernels, host, block, p_.state.block(block), arrival.gradient,
                 {.scalars = undo_.early(), .nonfinite = undo_.nonfinite(block)}, tag);
}

void SpeculativeUpdater::decided(BlockId block, Arrival& arrival, Event /*decided*/,
                                 const Tag& tag) {
  Stream& host = lane(Lane::kHost);
  undo_.restore(block, host, tag);
  p_.rule.submit(p_.host_kernels, host, block, p_.state.block(block), arrival.gradient,
                 {.scalars = undo_.again(), .nonfinite = undo_.nonfinite(block), .rare = true},
                 tag);
  check_update(undo_.nonfinite(block), block, tag);
  end(block, host.record());
}

}  // namespace strata
