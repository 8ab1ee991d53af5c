// The rules about memory decide what lives on the device and what on the host. They go in the order
// of docs/tuning.md, "By memory", and decide only what the config leaves open.

#pragma once

#include "plan/plan_inputs.h"
#include "strata/plan/setup.h"

namespace strata {

/// Decides resident units, sums of gradients on the device, the undo log and all that
/// plan_activations() decides, and makes the plan of `s`, which has its model, sizes and shapes.
/// What does not fit is planned all the same: require_fit() judges it.
void plan_memory(Setup& s, const PlanInputs& in);

}  // namespace strata
