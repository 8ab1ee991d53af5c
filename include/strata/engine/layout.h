// What every engine has a layout of, whatever it does with its weights: where blocks live, and
// every byte that is taken. Training and generation add their parts to it.

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
