// The two moments at which interleaved state travels, and the lanes it takes.

#include "strata/optimizer/shuttle_updater.h"

namespace strata {

// After what backward reads next on activations_in it would be late; of weights there is a lead.
void ShuttleUpdater::arrived(BlockId block, Arrival& /*arrival*/, std::optional<Event> decided,
                             const Tag& tag) {
  ship(block, lane(Lane::kWeightsIn), decided.value(), tag);
}

// Loads on weights_in wait for the host's updates and for slots, this for loads long before.
void ShuttleUpdater::before_load(BlockId block, Event decided, Event turn, const Tag& tag) {
  Stream& in = lane(Lane::kActivationsIn);
  in.wait(turn, WaitFor::kTurn);
  ship(block, in, decided, tag);
}

/// `decided` belongs to the update's step, which may be over.
void ShuttleUpdater::ship(BlockId block, Stream& in, Event decided, const Tag& tag) {
  Stream& out = lane(Lane::kOut);
  begin(block, out);
  out.wait(decided, WaitFor::kDecided);
  const Event home = shuttle_.ship(
      block, in,
      [&](const BlockState& part) {
        p_.rule.submit(p_.kernels, out, block, part, part.grad,
                       {.scalars = p_.scalars, .nonfinite = p_.device_nonfinite}, tag);
      },
      tag);
  end(block, home);
}

}  // namespace strata
