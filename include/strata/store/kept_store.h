#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "strata/device/allocator.h"
#include "strata/device/stream.h"
#include "strata/model/kept_activations.h"
#include "strata/store/spill_ring.h"

namespace strata {

/// How much each cell of a pass keeps, and where: up to `levels` on the device, from there up to
/// `reach` in host memory. What is above is computed again.
struct KeepPlan {
  int cells = 0;                  ///< S
  int slots = 0;                  ///< on the device, for cells on their way to the host and back
  std::vector<KeepLevel> levels;  ///< [L, S]
  std::vector<KeepLevel> reach;   ///< [L, S], at least levels

  KeepPlan() = default;
  KeepPlan(int layers, int cells_in, KeepLevel level)
      : cells(cells_in),
        levels(static_cast<std::size_t>(layers * cells_in), level),
        reach(levels) {}
  [[nodiscard]] std::size_t index(int layer, int cell) const {
    return static_cast<std::size_t>(layer) * static_cast<std::size_t>(cells) +
           static_cast<std::size_t>(cell);
  }
  /// Cells that keep just `level` on the device.
  [[nodiscard]] std::size_t count(KeepLevel level) const;
  /// Cells that spill up to just `level`; none for kRecompute.
  [[nodiscard]] std::size_t count_spilled(KeepLevel level) const;
  [[nodiscard]] bool spills(std::size_t index) const { return reach[index] > levels[index]; }
  /// The level whose tensors no cell needs scratch for: the lowest reach.
  [[nodiscard]] KeepLevel least_reach() const;
};

/// Bytes that a cell takes to go from the level below to `level`.
[[nodiscard]] std::size_t kept_bytes(std::span<const KeptTensor> tensors, KeepLevel level);
/// Bytes of the tensors above `from` up to `to`, side by side: what a cell spills.
[[nodiscard]] std::size_t spilled_bytes(std::span<const KeptTensor> tensors, KeepLevel from,
                                        KeepLevel to);

/// What a cell kept, for as long as the lease lives.
struct KeptLease {
  Lease lease;  ///< of the slot, if the cell spills
  KeptActivations activations;
  int layer = -1;
  int cell = -1;
};

/// What forward keeps of each cell for backward. Tensors that stay on the device have memory of
/// their own there, which only the compute lane touches, in order: there is nothing to wait for.
/// Those that are spilled share a few slots: they leave while the next cells run forward, and come
/// back while the cells before run backward.
class KeptStore {
 public:
  /// What cells keep on the device, the homes of what they spill, and slots on the way there.
  struct Memory {
    Memory(std::span<const KeptTensor> tensors, const KeepPlan& plan, Allocator& memory);

    std::vector<KeptActivations> kept;  ///< [L, S], on the device
    std::vector<std::byte*> homes;      ///< [L, S], pinned, or null
    SlotRing slots;                     ///< on the device; none if no cell spills
  };

  KeptStore(std::span<const KeptTensor> tensors, const KeepPlan& plan, Arenas& arenas);

  /// One access of a pass: backward of a cell.
  struct Read {
    int layer = 0;
    int cell = 0;
  };
  /// The cells whose backward the coming pass runs, in order. Forgets what the last pass left.
  void begin_pass(const std::vector<Read>& reads);
  /// For forward to write on `compute`; what was there is lost.
  [[nodiscard]] KeptLease fill(int layer, int cell, Stream& compute);
  /// Forward has written: spills what is to be spilled.
  void keep(KeptLease lease, const Tag& tag);
  /// For backward, which uses it up.
  [[nodiscard]] KeptLease acquire(int layer, int cell, Stream& compute, const Tag& tag);
  /// Starts to load what backward will need next, as far as slots are free.
  void prefetch(const Tag& tag);
  /// Bytes that have crossed the link so far, both ways.
  [[nodiscard]] std::size_t spilled_bytes() const { return ring_ ? ring_->spilled_bytes() : 0; }
  [[nodiscard]] std::size_t loaded_bytes() const { return ring_ ? ring_->loaded_bytes() : 0; }

 private:
  KeptStore(std::span<const KeptTensor> tensors, const KeepPlan& plan, Memory memory,
            Device& device);
  [[nodiscard]] KeptLease view(Lease lease, int layer, int cell) const;

  std::vector<KeptTensor> tensors_;
  KeepPlan plan_;
  std::vector<KeptActivations> kept_;  ///< [L, S], on the device
  std::optional<SpillRing> ring_;      ///< absent if no cell spills
};

}  // namespace strata
