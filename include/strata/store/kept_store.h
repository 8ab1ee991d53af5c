// The kept store has what cells keep between forward and backward so that backward need not compute
// it again, on the device or spilled to pinned memory. The planner says with a KeepPlan how much
// each cell keeps and where; the schedule fills and acquires cell by cell, and the model writes and
// reads the tensors. All calls come from the submitting thread and none of them blocks.

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

/// Says how much each cell of a pass keeps, and where: the tensors up to `levels` on the device,
/// those from there up to `reach` in host memory. What is above `reach` is computed again.
struct KeepPlan {
  int cells = 0;                  ///< S
  int slots = 0;                  ///< on the device, for cells on their way to the host and back
  std::vector<KeepLevel> levels;  ///< [L, S]
  std::vector<KeepLevel> reach;   ///< [L, S], each at least that of `levels`

  KeepPlan() = default;
  /// Lets every cell keep `level` on the device and spill nothing.
  KeepPlan(int layers, int cells_in, KeepLevel level)
      : cells(cells_in),
        levels(static_cast<std::size_t>(layers * cells_in), level),
        reach(levels) {}
  /// Returns the place of a cell in `levels` and `reach`.
  [[nodiscard]] std::size_t index(int layer, int cell) const {
    return static_cast<std::size_t>(layer) * static_cast<std::size_t>(cells) +
           static_cast<std::size_t>(cell);
  }
  /// Returns the number of cells that keep exactly `level` on the device.
  [[nodiscard]] std::size_t count(KeepLevel level) const;
  /// Returns the number of cells that spill and whose reach is exactly `level`; 0 for kRecompute.
  [[nodiscard]] std::size_t count_spilled(KeepLevel level) const;
  /// Returns true if the cell with this index sends something to the host.
  [[nodiscard]] bool spills(std::size_t index) const { return reach[index] > levels[index]; }
  /// Returns the lowest reach of all cells. The tensors up to this level need no scratch, because
  /// every cell has a place for them.
  [[nodiscard]] KeepLevel least_reach() const;
};

/// Returns the bytes, alignment included, of the tensors of a cell that `level` adds to the level
/// below it.
[[nodiscard]] std::size_t kept_bytes(std::span<const KeptTensor> tensors, KeepLevel level);
/// Returns the bytes, alignment included, of the tensors above `from` up to `to`, side by side:
/// what a cell spills.
[[nodiscard]] std::size_t spilled_bytes(std::span<const KeptTensor> tensors, KeepLevel from,
                                        KeepLevel to);

/// The lease is the right to touch what a cell keeps, until it is destroyed.
struct KeptLease {
  Lease lease;  ///< of the slot, if the cell spills
  KeptActivations activations;
  int layer = -1;
  int cell = -1;
};

/// Keeps activations of cells from forward to backward. Tensors that stay on the device have memory
/// of their own there, which only the compute lane touches, in order, so nothing waits for them.
/// Those that are spilled share a few slots: they leave while the next cells run forward, and come
/// back while the cells before them run backward.
class KeptStore {
 public:
  /// This is the memory of what cells keep on the device, of homes for what they spill, and of
  /// slots on the way there.
  struct Memory {
    Memory(std::span<const KeptTensor> tensors, const KeepPlan& plan, Allocator& memory);

    std::vector<KeptActivations> kept;  ///< [L, S], on the device
    std::vector<std::byte*> homes;      ///< [L, S], pinned, or null
    SlotRing slots;                     ///< on the device; none if no cell spills
  };

  /// Takes its memory from `arenas`, which must outlive the store. `tensors` are those of one cell.
  /// Throws OutOfMemory.
  KeptStore(std::span<const KeptTensor> tensors, const KeepPlan& plan, Arenas& arenas);

  /// A read is one access of a pass, by the backward of a cell.
  struct Read {
    int layer = 0;
    int cell = 0;
  };
  /// Takes the cells whose backward the coming pass runs, in their order, and forgets what the last
  /// pass left.
  void begin_pass(const std::vector<Read>& reads);
  /// Returns the tensors of a cell for forward to write on `compute`. What was there is lost.
  [[nodiscard]] KeptLease fill(int layer, int cell, Stream& compute);
  /// Says that the forward that writes is submitted, and spills what is to be spilled.
  void keep(KeptLease lease, const Tag& tag);
  /// Returns what the cell kept, for backward on `compute`, which may overwrite it. Throws
  /// std::logic_error for a cell that spills and is not the next that begin_pass() planned.
  [[nodiscard]] KeptLease acquire(int layer, int cell, Stream& compute, const Tag& tag);
  /// Starts to load what backward will need next, as far as slots are free.
  void prefetch(const Tag& tag);
  /// Returns the bytes that have gone to host memory so far.
  [[nodiscard]] std::size_t spilled_bytes() const { return ring_ ? ring_->spilled_bytes() : 0; }
  /// Returns the bytes that have come back from host memory so far.
  [[nodiscard]] std::size_t loaded_bytes() const { return ring_ ? ring_->loaded_bytes() : 0; }
  /// Returns how many slots and planned reads were looked at so far; tests bound it per cell.
  [[nodiscard]] std::int64_t looks() const { return ring_ ? ring_->looks() : 0; }

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
