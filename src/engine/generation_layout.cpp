// Lists what a generation engine takes, by the constructors that will take it.

#include "strata/engine/generation_layout.h"

#include "strata/store/training_state.h"
#include "strata/store/weight_store.h"

namespace strata {

void GenerationLayout::list_all_memory() {
  plan = {};
  const TrainingState::Memory weights_at_home(*model, state, plan);
  const WeightStore::Memory slots(*model, state, weight_slots, plan);
  list_memory(plan);
}

}  // namespace strata
