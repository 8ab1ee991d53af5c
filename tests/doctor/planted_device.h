// A cpu device whose copies go wrong: what it does is what another device does, but every copy is
// shown to a function first, which may change where from, where to and how much.
#pragma once

#include <functional>

#include "strata/ops/backend.h"

namespace strata::test {

struct PlannedCopy {
  std::byte* to;
  const std::byte* from;
  std::size_t bytes;
};
/// Called by the submitting thread for each copy of a lane, in order.
using CopyFault = std::function<void(Lane, PlannedCopy&)>;

/// Makes a cpu backend whose copies are shown to `fault`.
[[nodiscard]] Backend make_backend_with(const CopyFault& fault, const BackendOptions& options);

}  // namespace strata::test
