// This file has the sum over a row that the norms, attention and cross-entropy on the CPU take, and
// the maximum that attention takes. The sum's order is a function of the count alone, so results
// depend on neither the machine nor the number of threads.

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

/// Returns the largest of so many values, of which there is one at least. Lanes let the compiler
/// use vectors; the result is the same in any order.
template <class A>
inline A lane_max(const A* values, std::int64_t count) {
  constexpr int kLanes = 16;
  A lane[kLanes];
  for (A& top : lane) top = values[0];
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lane[l] = lane[l] < values[i + l] ? values[i + l] : lane[l];
  }
  for (; i < count; ++i) lane[0] = lane[0] < values[i] ? values[i] : lane[0];
  for (int l = 1; l < kLanes; ++l) lane[0] = lane[0] < lane[l] ? lane[l] : lane[0];
  return lane[0];
}

}  // namespace strata::cpu
