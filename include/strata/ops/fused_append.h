// What generation does between the projection and attention, as one operator. Letters of shapes are
// those of strata/ops/embedding.h.
#pragma once

#include "strata/ops/kv_cache.h"
#include "strata/ops/rope.h"

namespace strata {

/// Turns queries and keys, and adds the keys and their values to those of earlier tokens: Rope and
/// AppendKv one after the other, with their bits.
struct FusedAppend {
  static constexpr std::string_view kName = "fused_append";
  Rope rope;        ///< forward, of whole heads in halves; x [N, H + K, D] X are queries and keys
  AppendKv append;  ///< k are the last K heads of rope.x
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const;
};

/// Calls `run(part)` for each part, in order.
template <class Run>
void for_each_part(const FusedAppend& op, const Run& run) {
  run(op.rope);
  run(op.append);
}

}  // namespace strata
