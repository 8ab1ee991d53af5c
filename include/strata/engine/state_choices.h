// Makes the table of blocks from a few choices. This is the only place where rules about whole
// models (the first units are resident, a share of the layers is interleaved, some updates are left
// for the next forward) become rows of single blocks.

#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "strata/model/layout.h"
#include "strata/optimizer/timing.h"
#include "strata/store/block_plan.h"

namespace strata {

/// What decides the rows. Most of it stands in the config; resident_units, device_sums and an undo
/// log that nobody named are decided by the rules of memory, which try values.
struct StateChoices {
  DType compute = DType::kBF16;
  DType gradient = DType::kBF16;
  DType moment = DType::kF32;     ///< f32 stands for f64 with f64 weights
  Form base_form = Form::kPlain;  ///< of layers that nobody trains
  int moments = 2;                ///< this and the next one as in StatePlan
  bool split = true;
  bool muon = false;  ///< matrices of layers are updated as wholes
  int passes = 1;
  int gradient_ring = 0;  ///< slots that layers' gradients share; 0: each gradient has a home
  int rank = 0;           ///< this and the next three as in StatePlan
  int ranks = 1;
  int replica = 0;
  int replicas = 1;
  int resident_units = 0;  ///< the first units: the state of their blocks lives on the device
  int device_sums = 0;     ///< the first units: several contributions are summed on the device
  double interleave = 0;   ///< share of the layers with state on the host that the device updates,
                           ///< spread evenly: at f the i-th if floor((i + 1) f) > floor(i f)
  UpdateTiming timing = UpdateTiming::kBeforeUse;
  int deferred_units = 0;  ///< updates that are left for the next forward, see is_deferred()
  std::optional<std::size_t> undo_log{};  ///< bytes, for speculative updates; absent: none
  int chunk_factor = 1;                   ///< of StatePlan, which predictions of large models raise
};

/// Returns the rows of all blocks, and the dtypes that stores work with.
[[nodiscard]] StatePlan plan_state(const ModelLayout& layout, const StateChoices& choices);

/// Returns true for a unit whose blocks are left for the next forward to update where others are
/// updated in backward: `deferred` of `units`, or all, spread evenly, each in the middle of its
/// share. So the host is late by a few blocks at most when backward ends, and forward, which takes
/// half as long, does not meet all of them at its start.
[[nodiscard]] bool is_deferred(int unit, int deferred, int units);

/// Returns the blocks that an undo log of `bytes` would hold the old state of, in the order in
/// which gradients arrive, from the last: those on the host that are not deferred and fit what is
/// left.
[[nodiscard]] std::vector<BlockId> speculated_blocks(const ModelLayout& layout,
                                                     const StateChoices& choices,
                                                     std::size_t bytes);
/// Returns what the first `count` of these take of the log.
[[nodiscard]] std::size_t undo_log_bytes(const ModelLayout& layout, const StateChoices& choices,
                                         const std::vector<BlockId>& blocks, std::size_t count);

}  // namespace strata
