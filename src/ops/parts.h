// Derives what an operator that is made of others touches from what its parts touch.
#pragma once

#include "strata/device/trace.h"

namespace strata {

/// Returns what the parts of an operator touch, all together; for_each_part() lists them.
template <class O>
[[nodiscard]] Accesses accesses_of_parts(const O& op) {
  Accesses all;
  for_each_part(op, [&](const auto& part) {
    const Accesses some = part.accesses();
    all.reads.insert(all.reads.end(), some.reads.begin(), some.reads.end());
    all.writes.insert(all.writes.end(), some.writes.begin(), some.writes.end());
  });
  return all;
}

}  // namespace strata
