// This file declares the CPU's attention of single queries, as in decoding, which its forward
// chooses where no segment has more than one query.

#pragma once

#include <vector>

#include "kernels/cpu/attention_segments.h"
#include "kernels/cpu/operators.h"

namespace strata::cpu {

/// Computes o and lse of segments with one query each. Every element has the bits that it has in a
/// segment of more queries.
void attend_single_queries(const Context& context, const AttentionForward& op,
                           const std::vector<Segment>& segments);
/// Computes o of AttendInt8Kv likewise; no segment has more than one query.
void attend_single_queries(const Context& context, const AttendInt8Kv& op,
                           const std::vector<Segment>& segments);

}  // namespace strata::cpu
