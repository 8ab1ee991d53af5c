// The parts of a training engine that the optimizer works with.

#pragma once

#include "strata/base/thread_pool.h"
#include "strata/comm/collectives.h"
#include "strata/comm/ranks.h"
#include "strata/ops/kernels.h"
#include "strata/store/training_state.h"
#include "strata/store/weight_store.h"

namespace strata {

/// The optimizer works with these parts. All of them outlive it.
struct OptimizerParts {
  TrainingState& state;
  WeightStore& weights;
  Ranks& world;              ///< all ranks
  Collectives& collectives;  ///< of the ranks that share the state
  Kernels& kernels;          ///< run on device lanes
  Kernels& host_kernels;     ///< run on the host lane
  Arenas& arenas;
  ThreadPool& pool;  ///< of the host lane's own tasks
};

}  // namespace strata
