// What every rule of the planner reads. Nothing of it changes while a setup is made, and nobody
// else tells a rule anything about the run.

#pragma once

#include "strata/config/config.h"
#include "strata/plan/plan_choices.h"
#include "strata/plan/room.h"

namespace strata {

struct PlanInputs {
  const RunConfig& given;      ///< as the user wrote it
  const PlanChoices& choices;  ///< what is tried of what it leaves open
  Room room;
};

}  // namespace strata
