// The last check of a setup, after all rules have had their say. Rules choose among ways that may
// not fit, so this is the only place that refuses a run.

#pragma once

#include "plan/plan_inputs.h"
#include "strata/plan/setup.h"

namespace strata {

/// Throws OutOfMemory, with the plan and the keys to turn, if a setup does not stay within the
/// limits.
void require_fit(const Setup& s, const PlanInputs& in);

}  // namespace strata
