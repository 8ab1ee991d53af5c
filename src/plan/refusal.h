// What a user is told whose run does not fit: the memory that binds, and the keys that save most of
// it. Each figure comes from planning the run with that key changed.

#pragma once

#include <string>

#include "strata/plan/setup.h"

namespace strata {

/// Returns the text for a run that does not fit when the rules alone decide. It takes about as long
/// as a dozen plans.
[[nodiscard]] std::string refusal(const RunConfig& given, const PlannedRank& planned);

/// Returns a sentence, after a space, about units that a refused setup has on the device only
/// because the host is too small; else it is empty.
[[nodiscard]] std::string forced_units(const RunConfig& given, const Setup& refused);

}  // namespace strata
