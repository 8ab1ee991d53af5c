// The numbers of blocks and units of a model. A block is a run of parameters that lives, travels
// and is updated together; a unit is what computes (embedding, layer, head) with the blocks whose
// weights it reads. ModelLayout lists both; stores, updaters and the schedule index by these types.

#pragma once

#include "strata/base/indexed.h"

namespace strata {

using BlockId = Id<struct BlockNumber>;
using UnitId = Id<struct UnitNumber>;

template <class T>
using PerBlock = Indexed<BlockId, T>;
template <class T>
using PerUnit = Indexed<UnitId, T>;

}  // namespace strata
