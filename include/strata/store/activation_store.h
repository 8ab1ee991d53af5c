// The activation store has the boundary activations between the forward and the backward of a pass,
// on the device or spilled to pinned memory. The schedule asks for them cell by cell and gets
// leases; a SpillRing does the copying and waiting. All calls come from the submitting thread, none
// of them blocks, and a call that would read lost data throws std::logic_error.

#pragma once

#include <cstdint>
#include <vector>

#include "strata/ops/kernels.h"
#include "strata/store/boundary_form.h"
#include "strata/store/spill_ring.h"

namespace strata {

/// These are the sizes of the boundary activations of a pass, which layers and head read. Boundary
/// b is the input of layer b, boundary L that of the head; a cell is one sub-batch of one boundary.
struct ActivationShape {
  int layers = 0;                ///< L
  int cells = 0;                 ///< S
  std::int64_t cell_tokens = 0;  ///< N
  std::int64_t hidden = 0;       ///< C
  DType dtype = DType::kF32;
  BoundaryForm form = BoundaryForm::kExact;

  /// Returns the bytes of a cell on the device, [N, C] in `dtype`.
  [[nodiscard]] std::size_t cell_bytes() const {
    return static_cast<std::size_t>(cell_tokens * hidden) * size_of(dtype);
  }
  /// Returns the number of cells of all boundaries, (L+1)*S.
  [[nodiscard]] int keys() const { return (layers + 1) * cells; }
  /// Returns the bytes of a cell in host memory, in `form`.
  [[nodiscard]] std::size_t home_bytes() const;
  /// Returns the number of cells that have a home in host memory if the device has `slots` slots.
  /// In exact form these are all cells, or none if all stay on the device; in int8 they are the L*S
  /// cells that backward reads.
  [[nodiscard]] int homes(int slots) const;
  /// Returns the fewest slots with which forward reads nothing back: slots for
  /// the boundary that is read, of which the one that is made from it takes over cell by cell, and
  /// one more.
  [[nodiscard]] int forward_slots() const { return cells + 1; }
};

/// The lease is the right to touch one boundary of one cell on the device, until it is destroyed.
struct ActivationLease {
  Lease lease;
  TensorView x;  ///< [N, C]
  int boundary = -1;
  int cell = -1;
};

/// Keeps boundary activations until they are read. With a slot for every one they stay on the
/// device. With fewer, each is spilled to pinned memory once it is made, and is read from there if
/// it is needed after its slot went to another. With S + 1 slots forward reads nothing back; two
/// slots are enough to run. In int8 forward reads what was computed and backward what was spilled,
/// whatever the number of slots, which must be S + 1 at least.
class ActivationStore {
 public:
  /// A pass can run with so few slots: one is read while the other is written.
  static constexpr int kFewestSlots = 2;

  /// This is the memory of slots, of homes for what is spilled, and of what its form needs on the
  /// way.
  struct Memory {
    Memory(const ActivationShape& shape, int slots, Allocator& memory);

    std::vector<std::byte*> homes;  ///< pinned, of the first cells by key
    std::byte* int8_out = nullptr;  ///< device: a cell in int8 on its way out; null in exact form
    std::byte* int8_in = nullptr;   ///< device: a cell in int8 on its way in; null in exact form
    SlotRing slots;                 ///< device, [N, C] each
  };

  /// Takes device and pinned memory for `slots` slots from `arenas`. `kernels` and the arenas must
  /// outlive the store. Throws OutOfMemory.
  ActivationStore(const ActivationShape& shape, int slots, Kernels& kernels, Arenas& arenas);

  /// A read is one access of a pass, to a boundary of a cell.
  struct Read {
    int boundary = 0;
    int cell = 0;
  };
  /// Takes the reads of the coming pass in their order, and forgets what the last pass left.
  void begin_pass(const std::vector<Read>& reads);
  /// Returns a slot into which work on `compute` may write the boundary of a cell. Throws
  /// std::logic_error if no slot can be given up.
  [[nodiscard]] ActivationLease produce(int boundary, int cell, Stream& compute);
  /// Says that the work that writes the boundary is submitted, and ends the lease. Readers may
  /// follow, and a boundary that may be read from its home is copied there on the out lane.
  void keep(ActivationLease lease, const Tag& tag);
  /// Returns the content for reading on `compute`, and loads it first if it is not on the device.
  /// Throws std::logic_error if this is not the read that begin_pass() planned next.
  [[nodiscard]] ActivationLease acquire(int boundary, int cell, Stream& compute, const Tag& tag);
  /// Starts to load what will be read next, as far as slots are free.
  void prefetch(const Tag& tag) { ring_.prefetch(tag); }
  /// Returns the bytes that have gone to host memory so far.
  [[nodiscard]] std::size_t spilled_bytes() const { return ring_.spilled_bytes(); }
  /// Returns the bytes that have come back from host memory so far.
  [[nodiscard]] std::size_t loaded_bytes() const { return ring_.loaded_bytes(); }
  /// Returns how many slots and planned reads were looked at so far; tests bound it per cell.
  [[nodiscard]] std::int64_t looks() const { return ring_.looks(); }

 private:
  ActivationStore(const ActivationShape& shape, Memory memory, Kernels& kernels, Device& device);
  [[nodiscard]] std::int64_t key_of(int boundary, int cell) const {
    return static_cast<std::int64_t>(boundary) * shape_.cells + cell;
  }
  [[nodiscard]] ActivationLease view(Lease lease, int boundary, int cell) const;

  ActivationShape shape_;
  SpillRing ring_;
};

}  // namespace strata
