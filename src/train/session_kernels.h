// Loads the kernels that a session will run, with a plan for each of its matrix products. The
// session calls it before memory is counted, because kernels and their workspaces take device
// memory.

#pragma once

#include "strata/base/work_progress.h"
#include "strata/comm/ranks.h"
#include "strata/config/config.h"
#include "strata/model/spec.h"
#include "strata/ops/backend.h"
#include "strata/train/session.h"

namespace strata {

/// Prepares all kernels for steps of the model of `spec`, and for samples if the run takes some.
/// Plans of matrix products come from the run folder of `hooks`, the checkpoint that the run goes
/// on from, the user's cache, or from measuring. Blocks; all ranks call it. Throws as
/// restore_plans() and plan_matmuls() do.
void prepare_kernels(const RunConfig& config, const ModelSpec& spec, const SessionHooks& hooks,
                     Backend& backend, Ranks& ranks, WorkProgress& work);

}  // namespace strata
