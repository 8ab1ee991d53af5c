// Vectors of test values as C++ element types, and their comparison by bits.
#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

#include "strata/base/dtype.h"

namespace strata::test {

/// Numbers as T.
template <class T>
[[nodiscard]] std::vector<T> typed(const std::vector<double>& values) {
  std::vector<T> out;
  for (const double x : values) {
    if constexpr (std::is_same_v<T, Bf16>) {
      out.push_back(Bf16(static_cast<float>(x)));
    } else {
      out.push_back(static_cast<T>(x));
    }
  }
  return out;
}

template <class T>
[[nodiscard]] bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace strata::test
