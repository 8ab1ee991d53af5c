// A layout says where everything of an engine lives, to the byte: the table of blocks, and the list
// of all memory that is taken. This is the part that every engine has; training and generation add
// theirs to it. The planner fills layouts in, and nothing here reads a config.

#pragma once

#include <memory>

#include "strata/model/layout.h"
#include "strata/store/block_plan.h"
#include "strata/store/memory_plan.h"

namespace strata {

struct Layout {
  /// The names of a thousand layers are many, and rules copy layouts by the dozen while they look
  /// for the best: all copies share one list of blocks, which nobody changes.
  std::shared_ptr<const ModelLayout> model;
  StatePlan state;
  int weight_slots = 0;
  MemoryPlan plan;
};

}  // namespace strata
