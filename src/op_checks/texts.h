// How the cases of checks are written in messages.

#pragma once

#include <string>

#include "strata/base/log.h"
#include "strata/op_checks/checks.h"

namespace strata {

[[nodiscard]] inline std::string text_of(DType dtype, const RowsCase& c) {
  return fmt::format("{}, {} rows of {}, gap {}{}", name_of(dtype), c.tokens, c.width, c.gap,
                     c.in_place ? ", in place" : "");
}
[[nodiscard]] inline std::string text_of(DType dtype, const RopeCase& c) {
  return fmt::format("{}, {} tokens, {} heads of {}, gap {}", name_of(dtype), c.tokens, c.heads,
                     c.head_dim, c.gap);
}
[[nodiscard]] inline std::string text_of(DType dtype, std::int64_t elements) {
  return fmt::format("{}, {} elements", name_of(dtype), elements);
}
[[nodiscard]] inline std::string text_of(DType dtype, const AttentionCase& c) {
  return fmt::format("{}, {}, {} heads of {}", name_of(dtype), c.name, c.heads, c.head_dim);
}

}  // namespace strata
