#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

namespace strata {

/// Integer conversion that throws std::range_error instead of changing the value.
template <class To, class From>
  requires(std::is_integral_v<To> && std::is_integral_v<From>)
constexpr To narrow(From value) {
  const To result = static_cast<To>(value);
  if (static_cast<From>(result) != value || ((result < To{}) != (value < From{}))) {
    throw std::range_error("narrow: " + std::to_string(value) + " does not fit the target type");
  }
  return result;
}

}  // namespace strata
