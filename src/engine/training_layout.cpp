// Lists what a training engine takes, by the constructors that will take it.

#include "strata/engine/training_layout.h"

#include <algorithm>

#include "engine/training_memory.h"
#include "strata/model/fp8_counts.h"
#include "strata/optimizer/optimizer.h"
#include "strata/store/fp8_count_store.h"
#include "strata/store/gradient_store.h"
#include "strata/store/loss_store.h"
#include "strata/store/weight_store.h"

namespace strata {

int TrainingLayout::count_blocks(bool (*is)(const BlockPlan&)) const {
  return static_cast<int>(std::count_if(state.blocks.begin(), state.blocks.end(), is));
}

std::size_t TrainingLayout::idle_device_bytes() const {
  MemoryPlan idle;
  const ActivationStore::Memory boundaries(activations, activation_slots, idle);
  const KeptStore::Memory cells(kept_tensors(), kept, idle);
  static_cast<void>(take_boundary_gradients(activations, idle));
  const LlamaScratch scratch(spec, sizes, idle);
  return idle.total(Space::kDevice);
}

void TrainingLayout::list_fixed_memory() {
  state = plan_state(*model, choices);
  plan = {};
  TrainingState::Memory(*model, state, plan);
  WeightStore::Memory(*model, state, weight_slots, plan);
  GradientStore::Memory(*model, state, gradient_slots, plan);
  BatchStore::Memory(batch, plan);
  LossStore::Memory(batch.batch.pass_tokens(), accumulator_of(sizes.compute), plan);
  static_cast<void>(take_preference(*this, plan));
  Optimizer::Memory(*model, state, plan);
  static_cast<void>(take_boundary_gradients(activations, plan));
  static_cast<void>(Llama::Memory::rope_tables(spec, sizes, plan));
  static_cast<void>(take_sample_memory(*this, plan));
  if (fp8_metrics_every > 0) Fp8CountStore::Memory(fp8_count_rows(walk.layers), plan);
  if (saves) StateSaver::Memory(*model, state, *saves, plan);
}

void TrainingLayout::add_activations() {
  ActivationStore::Memory(activations, activation_slots, plan);
  add_scratch();
  KeptStore::Memory(kept_tensors(), kept, plan);
}

void TrainingLayout::add_scratch() {
  sizes.kept_by_all = kept.least_reach();
  const LlamaScratch scratch(spec, sizes, plan);
}

}  // namespace strata
