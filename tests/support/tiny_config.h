// The config of tiny_model() from which tests of plans, stores and whole runs begin.
#pragma once

#include "strata/config/config.h"

namespace strata::test {

/// tiny_model() on synthetic tokens: f64, 6 rows a step.
[[nodiscard]] RunConfig tiny_config();
/// The same for the GPU, in f32 or bf16: 8 steps of a model with head dims and sizes that tensor
/// cores take.
[[nodiscard]] RunConfig tiny_gpu_config(DType dtype);

}  // namespace strata::test
