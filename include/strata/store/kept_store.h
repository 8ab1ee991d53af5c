#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "strata/device/arena.h"
#include "strata/device/stream.h"
#include "strata/model/kept_activations.h"
#include "strata/store/memory_plan.h"

namespace strata {

/// How much each cell of a pass keeps.
struct KeepPlan {
  int cells = 0;                  ///< S
  std::vector<KeepLevel> levels;  ///< [L, S]

  KeepPlan() = default;
  KeepPlan(int layers, int cells_in, KeepLevel level)
      : cells(cells_in), levels(static_cast<std::size_t>(layers * cells_in), level) {}
  [[nodiscard]] std::size_t index(int layer, int cell) const {
    return static_cast<std::size_t>(layer) * static_cast<std::size_t>(cells) +
           static_cast<std::size_t>(cell);
  }
  [[nodiscard]] std::size_t count(KeepLevel level) const;
};

/// Bytes on the device that a cell takes to go from the level below to `level`.
[[nodiscard]] std::size_t kept_bytes(std::span<const KeptTensor> tensors, KeepLevel level);

/// What forward keeps of each cell for backward. Every tensor has device memory of its own, and
/// only the compute lane touches it, in order: there is nothing to wait for.
class KeptStore {
 public:
  KeptStore(std::span<const KeptTensor> tensors, const KeepPlan& plan, Arena& device_arena);
  static void plan(MemoryPlan& memory, std::span<const KeptTensor> tensors, const KeepPlan& plan);

  /// For forward to write on `compute`; what was there is lost.
  [[nodiscard]] const KeptActivations& fill(int layer, int cell, Stream& compute);
  /// For backward.
  [[nodiscard]] const KeptActivations& at(int layer, int cell) const {
    return kept_[plan_.index(layer, cell)];
  }

 private:
  std::vector<KeptTensor> tensors_;
  KeepPlan plan_;
  std::vector<KeptActivations> kept_;  ///< [L, S]
};

}  // namespace strata
