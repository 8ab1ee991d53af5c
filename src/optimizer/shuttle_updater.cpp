// Interleaved state travels at one of two moments: when its gradient has arrived, or before its
// weights are loaded. Each has a lane of its own to the device; the way back is the out lane.

#include "strata/optimizer/shuttle_updater.h"

namespace strata {

// On activations_in the state would queue after what backward reads next, and come late. Weights
// are loaded with a lead, so weights_in has room for it.
void ShuttleUpdater::arrived(BlockId block, Arrival& /*arrival*/, std::optional<Event> decided,
                             const Tag& tag) {
  ship(block, lane(Lane::kWeightsIn), decided.value(), tag);
}

// Loads on weights_in wait for updates on the host and for slots. Interleaved state need only wait
// for a load long before its own, so it goes by another lane.
void ShuttleUpdater::before_load(BlockId block, Event decided, const Tag& tag) {
  Stream& in = lane(Lane::kActivationsIn);
  in.wait(p_.weights.turn(), WaitFor::kTurn);
  ship(block, in, decided, tag);
}

/// Submits the way of a block to the device, its update and its way home. `decided` belongs to the
/// step of the update, which may be over.
void ShuttleUpdater::ship(BlockId block, Stream& in, Event decided, const Tag& tag) {
  Stream& out = lane(Lane::kOut);
  begin(block, out);
  out.wait(decided, WaitFor::kDecided);
  const Event home = shuttle_.ship(
      block, in,
      [&](const BlockState& part, const Tag& of_chunk) {
        p_.rule.submit(p_.kernels, out, block, part, part.grad,
                       {.scalars = p_.scalars, .nonfinite = p_.device_nonfinite}, of_chunk);
      },
      tag);
  end(block, home);
}

}  // namespace strata
