// The rule that sizes of configs and of options have in common.
#pragma once

#include <cstddef>
#include <string>

namespace strata {

/// Returns what is wrong with a size that is so small that it can only lack its unit, a clause with
/// the remedy, or nothing. 0 is a size.
[[nodiscard]] std::string size_problem(std::size_t bytes);

}  // namespace strata
