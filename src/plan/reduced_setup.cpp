// The members of a setup that count sub-batches or passes are changed, and its memory is planned
// again, so that an assembly can be made of it.

#include "plan/reduced_setup.h"

#include <algorithm>
#include <cmath>

#include "plan/activation_plan.h"
#include "plan/memory_rules.h"

namespace strata {

namespace {

/// Returns a number of boundaries in proportion. As many as forward needs stay as many, and those
/// beyond are counted apart: less than that makes forward read back.
int reduced_slots(const Setup& whole, const Setup& reduced) {
  const double share = static_cast<double>(reduced.activations.cells) / whole.activations.cells;
  const auto scaled = [&](int slots) { return static_cast<int>(std::lround(share * slots)); };
  const int needed = whole.activations.forward_slots();
  const int slots = whole.activation_slots;
  if (slots < needed) {
    const int fewest = std::min(slots, static_cast<int>(ActivationStore::kFewestSlots));
    return std::clamp(scaled(slots), fewest, reduced.activations.forward_slots());
  }
  return std::min(reduced.activations.keys(),
                  reduced.activations.forward_slots() + scaled(slots - needed));
}

/// Lets each cell keep and spill what the one in its middle does of those that it stands for.
KeepPlan reduced_kept(const KeepPlan& whole, int layers, int cells) {
  KeepPlan kept(layers, cells, KeepLevel::kRecompute);
  kept.slots = whole.slots;
  for (int layer = 0; layer < layers; ++layer) {
    for (int cell = 0; cell < cells; ++cell) {
      const auto like = static_cast<int>((2 * std::int64_t{cell} + 1) * whole.cells / (2 * cells));
      kept.levels[kept.index(layer, cell)] = whole.levels[whole.index(layer, like)];
      kept.reach[kept.index(layer, cell)] = whole.reach[whole.index(layer, like)];
    }
  }
  return kept;
}

}  // namespace

double step_cells(const Setup& setup) {
  return static_cast<double>(setup.choices.passes) * (setup.walk.layers + 2) * setup.walk.cells;
}

Setup reduced_setup(const Setup& whole, int cells, int passes) {
  Setup s = whole;
  s.choices.passes = passes;
  s.batch.host_slots = 2 * passes;
  s.batch.batch.sub_batches = cells;
  s.activations.cells = cells;
  s.walk.cells = cells;
  s.activation_slots = reduced_slots(whole, s);
  s.kept = reduced_kept(whole.kept, s.activations.layers, cells);
  plan_fixed(s);
  add_activations(s);
  return s;
}

}  // namespace strata
