#pragma once

#include <cstdint>
#include <vector>

#include "strata/ops/kernels.h"
#include "strata/store/spill_ring.h"

namespace strata {

/// How spilled boundary activations lie in host memory.
enum class BoundaryForm : std::uint8_t {
  kExact,  ///< as they were computed
  kInt8,   ///< a byte each and a scale per row (QuantizeRows); backward reads nothing else
};

/// Sizes of a pass's boundary activations: what each layer reads. Boundary b is the input of layer
/// b, boundary L that of the head; a cell is one sub-batch of one boundary.
struct ActivationShape {
  int layers = 0;                ///< L
  int cells = 0;                 ///< S
  std::int64_t cell_tokens = 0;  ///< N
  std::int64_t hidden = 0;       ///< C
  DType dtype = DType::kF32;
  BoundaryForm form = BoundaryForm::kExact;

  [[nodiscard]] std::size_t cell_bytes() const {
    return static_cast<std::size_t>(cell_tokens * hidden) * size_of(dtype);
  }
  [[nodiscard]] int keys() const { return (layers + 1) * cells; }
  /// Of a cell in host memory.
  [[nodiscard]] std::size_t home_bytes() const;
  /// Cells that are spilled if there are so many slots: of all boundaries, but no more than
  /// backward reads in int8, and none if all stay on the device.
  [[nodiscard]] int homes(int slots) const;
  /// The fewest slots with which forward reads nothing back, whatever the walk: the boundary that
  /// is read, cell by cell the one that is made from it, and one more.
  [[nodiscard]] int forward_slots() const { return cells + 1; }
};

/// One boundary of one cell on the device, [N, C].
struct ActivationLease {
  Lease lease;
  TensorView x;
  int boundary = -1;
  int cell = -1;
};

/// Boundary activations between forward and backward. With a slot for every one they stay on the
/// device; with fewer, each is spilled to pinned memory when it was made, and read from there if it
/// is needed after its slot went to another. With S + 1 slots forward reads nothing back; two slots
/// are enough to run. In int8 forward reads what was computed and backward what was spilled, always
/// and whatever the number of slots, which must be S + 1 at least.
class ActivationStore {
 public:
  static constexpr int kFewestSlots = 2;

  /// Slots, homes of what is spilled, and what its form needs on the way.
  struct Memory {
    Memory(const ActivationShape& shape, int slots, Allocator& memory);

    std::vector<std::byte*> homes;  ///< pinned, of the first boundaries
    std::byte* int8_out = nullptr;  ///< device: a cell in int8 on its way out; null in exact form
    std::byte* int8_in = nullptr;   ///< device: likewise on its way in
    SlotRing slots;                 ///< device, [N, C] each
  };

  /// `kernels` must outlive the store.
  ActivationStore(const ActivationShape& shape, int slots, Kernels& kernels, Arenas& arenas);

  /// One access of a pass: reading a boundary of a cell.
  struct Read {
    int boundary = 0;
    int cell = 0;
  };
  /// The reads of the coming pass in order. Forgets what the last pass left.
  void begin_pass(const std::vector<Read>& reads);
  /// A slot to write boundary `b` of a cell into, on `compute`.
  [[nodiscard]] ActivationLease produce(int boundary, int cell, Stream& compute);
  /// The content is written: makes it readable, and spills it if it may lose its slot.
  void keep(ActivationLease lease, const Tag& tag);
  /// The content, for reading on `compute`; loaded if it is not on the device.
  [[nodiscard]] ActivationLease acquire(int boundary, int cell, Stream& compute, const Tag& tag);
  /// Starts to load what will be read next, as far as slots are free.
  void prefetch(const Tag& tag) { ring_.prefetch(tag); }
  /// Bytes that have crossed the link so far, both ways.
  [[nodiscard]] std::size_t spilled_bytes() const { return ring_.spilled_bytes(); }
  [[nodiscard]] std::size_t loaded_bytes() const { return ring_.loaded_bytes(); }

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
