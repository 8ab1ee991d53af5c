// How much memory the records of a traced run take. A run with run.trace_step, and every benchmark,
// keeps two steps' submissions on the heap until they are written; the planner adds that to the
// host's plan, and the recorder makes room for so many before they begin.

#pragma once

#include <cstddef>

#include "strata/engine/training_layout.h"

namespace strata {

/// Two steps are traced, one after the other.
inline constexpr int kTracedSteps = 2;
/// What a record takes in the mean, with the bytes it names, its place in its lane, when it ran and
/// what the search for races notes of it.
inline constexpr std::size_t kTraceRecordBytes = 1024;

/// Returns a bound for the records of the traced steps, up to the end of their updates. It takes
/// of the layout what is decided before memory is planned, and the table of blocks.
[[nodiscard]] std::size_t most_trace_records(const TrainingLayout& layout);

}  // namespace strata
