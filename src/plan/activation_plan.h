// The rule about activations, which share the device with the model's scratch when everything else
// has its memory. The rules of memory call it for each placement that they try.

#pragma once

#include "plan/plan_inputs.h"
#include "strata/plan/setup.h"

namespace strata {

/// Decides how many boundaries stay on the device, what each cell keeps there, what it spills and
/// what it computes again, and adds all of it, with the model's scratch, to the plan of `s`, which
/// holds everything else. What the config or a candidate names comes first. The rest is chosen
/// among all ways that fit the limits: the one that computes least again, and of these the one that
/// moves least.
void plan_activations(Setup& s, const PlanInputs& in);

}  // namespace strata
