// The formulas of strata/ops/attention.h as nested loops in f64, with how far an operator may be
// off.

#pragma once

#include <cstdint>
#include <vector>

#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"

namespace strata {

/// Element [token, head, 0] of a tensor with `heads` heads.
struct HeadIndex {
  std::int64_t heads, width;
  [[nodiscard]] std::int64_t operator()(std::int64_t token, std::int64_t head) const {
    return (token * heads + head) * width;
  }
};

/// The numbers that attention is given.
struct AttentionInputs {
  std::vector<double> q, k, v, d_o;
  double scale;
  std::int64_t window;
  double cap;  ///< of scores
  HeadIndex at_q, at_k;
  std::int64_t group;
  std::vector<SegmentEntry> segments;
  std::vector<double> positions, cos, sin;  ///< of the rotation; cos and sin [kPositions, D/2]

  AttentionInputs(const AttentionCase& c, DType dtype);
  static constexpr std::int64_t kPositions = 50;
};

struct AttentionForwardExpected {
  Expected o, lse;
};
[[nodiscard]] AttentionForwardExpected forward_expected(const AttentionInputs& in,
                                                        const AttentionCase& c);

struct AttentionBackwardExpected {
  Expected dq, dk, dv;
};
/// `o` is the output of forward, as backward gets it.
[[nodiscard]] AttentionBackwardExpected backward_expected(const AttentionInputs& in,
                                                          const AttentionCase& c,
                                                          const std::vector<double>& o);

/// Turns rows of `heads` heads back. The values were rounded before that, by `rounding` in units of
/// A's roundoff.
void turn_back(Expected& e, const AttentionInputs& in, std::int64_t heads, double rounding);

}  // namespace strata
