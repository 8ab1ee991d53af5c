// How samples of a run are laid out: sweeps over the weights that are trained, in device memory
// that a step uses and that is idle between steps. Only a little pinned memory is their own.

#pragma once

#include <cstddef>

#include "strata/engine/sweep_layout.h"

namespace strata {

struct SampleLayout : SweepLayout {
  MemoryPlan plan;               ///< what the sweeps take; a run's own plan has the pinned part
  std::size_t pinned_bytes = 0;  ///< taken for them, whatever number of sequences goes at once
  std::size_t idle_bytes = 0;    ///< of device memory between steps

  /// Returns whether what they take on the device is idle between steps.
  [[nodiscard]] bool fits() const { return plan.total(Space::kDevice) <= idle_bytes; }
};

}  // namespace strata
