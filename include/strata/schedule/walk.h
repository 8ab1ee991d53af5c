// The order of one pass, in which the schedule asks the stores for what it needs. A pass goes
// through the embedding, the layers upwards, the head, the layers downwards and the embedding, one
// unit at a time, and in each unit through its cells (sub-batches) in ascending order. The schedule
// hands these lists to the stores before a pass begins, which prefetch and evict by them.

#pragma once

#include <cstdint>
#include <vector>

#include "strata/model/ids.h"
#include "strata/store/activation_store.h"
#include "strata/store/kept_store.h"

namespace strata {

/// The size of a pass. Units are numbered as in ModelLayout: 0 embedding, 1..L layers, L+1 head.
struct Walk {
  int layers = 1;  ///< L
  int cells = 1;   ///< S
  [[nodiscard]] static UnitId embedding() { return UnitId(0); }
  [[nodiscard]] static UnitId unit_of(int layer) { return UnitId(layer + 1); }
  [[nodiscard]] UnitId head() const { return UnitId(layers + 1); }
};

/// How far a pass goes: validation ends at the head.
enum class Extent : std::uint8_t { kForward, kForwardAndBackward };

/// Returns the units whose weights a pass acquires, in order. Backward of the embedding needs none.
[[nodiscard]] std::vector<UnitId> unit_order(const Walk& walk, Extent extent);
/// Returns the boundary activations that a pass reads, in order: layer l reads boundary l in
/// forward and again in backward, the head reads boundary L.
[[nodiscard]] std::vector<ActivationStore::Read> boundary_order(const Walk& walk, Extent extent);
/// Returns the cells whose backward a pass runs, in order; none if it goes forward alone.
[[nodiscard]] std::vector<KeptStore::Read> backward_order(const Walk& walk, Extent extent);

}  // namespace strata
