// Which backend a choice of the config or of an option stands for on this machine. Sessions start
// with it, and the doctor says what they would find.
#pragma once

#include <string_view>

#include "strata/base/dtype.h"
#include "strata/config/config.h"
#include "strata/ops/backend.h"

namespace strata {

/// Returns the backend that is chosen; of "auto" that of GPUs if there is one and it has the dtype:
/// f64 exists on the cpu only.
[[nodiscard]] BackendKind backend_of(BackendChoice choice, DType dtype);

/// Throws ConfigError that begins with `option`, by which the backend was chosen, if this program
/// was built without it. "auto" never chooses one that it lacks.
void require_built(BackendChoice choice, std::string_view option);

}  // namespace strata
