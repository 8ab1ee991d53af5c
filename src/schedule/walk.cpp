// Lists the accesses of a pass; the schedule makes them in the same order.

#include "strata/schedule/walk.h"

namespace strata {

std::vector<UnitId> unit_order(const Walk& walk, Extent extent) {
  std::vector<UnitId> units{Walk::embedding()};
  for (int layer = 0; layer < walk.layers; ++layer) units.push_back(Walk::unit_of(layer));
  units.push_back(walk.head());
  if (extent == Extent::kForward) return units;
  for (int layer = walk.layers - 1; layer >= 0; --layer) units.push_back(Walk::unit_of(layer));
  return units;
}

std::vector<ActivationStore::Read> boundary_order(const Walk& walk, Extent extent) {
  std::vector<ActivationStore::Read> reads;
  for (int boundary = 0; boundary <= walk.layers; ++boundary) {
    for (int cell = 0; cell < walk.cells; ++cell) reads.push_back({boundary, cell});
  }
  for (const KeptStore::Read& read : backward_order(walk, extent)) {
    reads.push_back({read.layer, read.cell});
  }
  return reads;
}

std::vector<KeptStore::Read> backward_order(const Walk& walk, Extent extent) {
  std::vector<KeptStore::Read> cells;
  if (extent == Extent::kForward) return cells;
  for (int layer = walk.layers - 1; layer >= 0; --layer) {
    for (int cell = 0; cell < walk.cells; ++cell) cells.push_back({layer, cell});
  }
  return cells;
}

}  // namespace strata
