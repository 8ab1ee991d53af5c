// The one way to make an integer smaller. Sizes are std::size_t and counts std::int64_t everywhere,
// so conversions stand at the borders to libraries and files, where a silent wrap would be a bug.
#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

namespace strata {

/// Converts an integer and throws std::range_error, naming the value, if the result would differ.
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
