// Says what a user is told whose run does not fit: the memory that binds, and the keys that save
// most of it. Each figure comes from planning the run with that key changed.

#pragma once

#include <string>

#include "strata/plan/setup.h"

namespace strata {

/// Returns the text for a run that does not fit when the rules alone decide. It takes about as long
/// as a hundred plans.
[[nodiscard]] std::string refusal(const RunConfig& given, const PlannedRank& planned);

/// Returns what a refused setup needs, of which parts, and what limits it. What is short first is
/// named first: the host, if only for want of room there units are on the device.
[[nodiscard]] std::string shortage_sentences(const RunConfig& given, const Setup& refused,
                                             const PlannedRank& planned);

}  // namespace strata
