// Checks a setup for the last time, after all rules have had their say. Rules choose among ways
// that may not fit, so this is the only place that refuses a run.

#pragma once

#include <string>

#include "strata/plan/setup.h"

namespace strata {

/// Which of the two limits a setup does not stay within, or that samples do not fit between steps.
enum class Shortage { kNone, kDevice, kHost, kSamples };
[[nodiscard]] Shortage shortage_of(const Setup& s);

/// Returns what the setup needs of the memory that binds, of which parts, and what limits it, in
/// one sentence; empty if it fits.
[[nodiscard]] std::string shortage_text(const Setup& s);
/// Returns likewise what it needs of the host, whether that fits or not.
[[nodiscard]] std::string host_need_text(const Setup& s);

/// Throws OutOfMemory, with this sentence, if a setup does not stay within the limits.
void require_fit(const Setup& s);

}  // namespace strata
