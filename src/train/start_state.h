// The state that a session begins with: that of the checkpoint that its run goes on from, weights
// of a model's folder, or weights that are drawn.

#pragma once

#include "strata/base/thread_pool.h"
#include "strata/base/work_progress.h"
#include "strata/comm/ranks.h"
#include "strata/config/config.h"
#include "strata/engine/training_engine.h"
#include "strata/model/spec.h"
#include "strata/train/session.h"

namespace strata {

/// Looks at the headers of the files of model.path, if there is one, and logs what nothing uses;
/// and at those of adapter.path, unless the run goes on from a checkpoint. Throws IoError and
/// ConfigError if they are not the weights of `spec`.
void check_start_weights(const RunConfig& config, const SessionHooks& hooks, const ModelSpec& spec,
                         Ranks& ranks);

/// Sets the state of the engine. Blocks; all ranks call it. Throws on all ranks if one cannot read
/// the checkpoint: DamagedCheckpoint if what it read is wrong, and AgreedError, or IoError on a
/// rank that is alone, if the system did not let it read. What `hooks.may_end` throws between
/// blocks of the checkpoint ends the load.
void set_start_state(const RunConfig& config, const SessionHooks& hooks, TrainingEngine& engine,
                     ThreadPool& pool, Ranks& ranks, WorkProgress& work);

}  // namespace strata
