// This file turns the pairs of one head on the CPU, for the operators that must have the same bits:
// rope.cpp, and head_norm.cpp, which rotates what it has normalised.

#pragma once

#include <cstdint>

#include "kernels/cpu/typed.h"

namespace strata::cpu {

/// Which elements of a head are pairs: i * step and i * step + to_second, for i < count.
struct RopePairPlaces {
  std::int64_t count;
  std::int64_t step;
  std::int64_t to_second;
};

/// Turns the pairs of a head by their angles, in A, rounded once. A `direction` of -1 turns back.
template <Compute X, class A = Accumulator<X>>
void turn_pairs(const RopePairPlaces& pairs, const A* cosine, const A* sine, A direction, X* head) {
  for (std::int64_t i = 0; i < pairs.count; ++i) {
    X& first = head[i * pairs.step];
    X& second = head[i * pairs.step + pairs.to_second];
    const A a = static_cast<A>(first);
    const A b = static_cast<A>(second);
    const A s = direction * sine[i];
    first = X(a * cosine[i] - b * s);
    second = X(b * cosine[i] + a * s);
  }
}

}  // namespace strata::cpu
