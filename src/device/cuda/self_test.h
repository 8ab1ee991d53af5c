// Makes sure at start-up that lanes cannot stop each other: enough hardware queues, and streams
// that run independently. The device calls it when it is made, and fails to start with a remedy
// rather than hang in a step.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "src/device/cuda/driver.h"

namespace strata::cuda {

/// Gives the process enough hardware queues: sets CUDA_DEVICE_MAX_CONNECTIONS if it is unset. To be
/// called before the first CUDA call of the process.
void prepare_connections();
/// Throws BackendError, naming the variable, if it was set to fewer than the lanes need.
void require_connections();

/// Holds each stream in turn on a flag of the host and checks that every other one still moves.
/// Throws BackendError with the remedy if not: a lane that waits for the host would then stop the
/// lanes that the host waits for.
void require_independent(const Driver& driver, const std::vector<cudaStream_t>& streams);

}  // namespace strata::cuda
