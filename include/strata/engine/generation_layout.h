// How generation is laid out in memory, to the byte: where weights, keys and values live, and how
// much goes through a layer at once. A generation engine is built from it.

#pragma once

#include <algorithm>

#include "strata/engine/layout.h"
#include "strata/engine/sweep_layout.h"

namespace strata {

struct GenerationLayout : Layout, SweepLayout {
  int resident_units = 0;

  /// Returns how many units come over the link in every sweep. The embedding never does.
  [[nodiscard]] int travelling_units() const {
    return std::max(0, static_cast<int>(model->units.size()) - 1 - resident_units);
  }
  /// Lists every byte in the plan, by the constructors that will take it.
  void list_all_memory();
};

}  // namespace strata
