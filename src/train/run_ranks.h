#pragma once

#include <functional>

#include "strata/comm/communicator.h"

namespace strata {

/// Runs `body` on what the launcher started. With several ranks an error is logged with its rank
/// and takes all ranks down with its exit code, so that none hangs in a collective; alone it is
/// thrown on.
int on_all_ranks(const std::function<int(Communicator&)>& body);

}  // namespace strata
