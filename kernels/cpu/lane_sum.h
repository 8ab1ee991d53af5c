// This file has the sum over a row that the norms, attention and cross-entropy on the CPU take. Its
// order is a function of the count alone, so results depend on neither the machine nor the number
// of threads.

#pragma once

#include <cstdint>

namespace strata::cpu {

/// Returns the sum of term(i) over i < count, taken as kLanes interleaved partial sums and then a
/// fixed tree. The order is written out, so it does not depend on the machine, and the compiler can
/// use vectors.
template <class A, class Term>
inline A lane_sum(std::int64_t count, Term term) {
  constexpr int kLanes = 16;
  A lane[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lane[l] += term(i + l);
  }
  for (int l = 0; i < count; ++i, ++l) lane[l] += term(i);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
  }
  return lane[0];
}

}  // namespace strata::cpu
