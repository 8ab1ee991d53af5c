// What a results file says of the machine. It is asked without taking a GPU, which the runs that
// are measured want for themselves.

#pragma once

#include "strata/benchmark/results.h"

namespace strata {

/// Returns program, date and machine; command and launcher are left to the caller. What the system
/// does not tell is absent; throws nothing of its own.
[[nodiscard]] Provenance this_machine();

}  // namespace strata
