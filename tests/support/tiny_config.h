// The config of tiny_model() from which tests of plans, stores and whole runs begin.
#pragma once

#include "strata/config/config.h"

namespace strata::test {

/// tiny_model() on synthetic tokens: f64, 6 rows a step.
[[nodiscard]] RunConfig tiny_config();

}  // namespace strata::test
