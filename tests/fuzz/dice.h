// The random choices of one case. They are a pure function of the seed and the case's number, so a
// case is the same alone, in any order and on any number of workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "strata/base/random.h"

namespace strata::fuzz {

class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t number) : seed_(seed), number_(number) {}

  [[nodiscard]] std::uint64_t bits() { return random_bits(seed_, number_, index_++); }
  /// Returns a number in [0, count); `count` is above 0.
  [[nodiscard]] std::size_t below(std::size_t count) { return bits() % count; }
  [[nodiscard]] bool chance(double share) {
    return random_uniform(seed_, number_, index_++) < share;
  }
  /// Returns one element of a list that is not empty.
  template <class List>
  [[nodiscard]] const auto& pick(const List& list) {
    return *std::next(std::begin(list), static_cast<std::ptrdiff_t>(below(std::size(list))));
  }

 private:
  std::uint64_t seed_;
  std::uint64_t number_;
  std::uint64_t index_ = 0;
};

}  // namespace strata::fuzz
