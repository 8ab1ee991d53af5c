// Collectives by NCCL, which queues its own kernels on the comm lane.
#pragma once

#include <memory>

#include "comm/nccl_api.h"
#include "strata/comm/collectives.h"

namespace strata {

/// Connects the GPUs of these ranks and returns their collectives; several ranks, of which all call
/// it. Every kind of collective has run once when it returns, since NCCL takes memory at the first
/// of each. Within one connection NCCL adds in the order that its choice of algorithm gives, which
/// depends on GPUs, links, ranks and bytes: the same launch gives the same bits. Throws
/// BackendError with what NCCL says.
[[nodiscard]] std::unique_ptr<Collectives> make_nccl_collectives(NcclApi api, Ranks& ranks,
                                                                 Device& device);

}  // namespace strata
