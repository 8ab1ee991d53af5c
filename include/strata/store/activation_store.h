#pragma once

#include <cstdint>
#include <vector>

#include "strata/device/slot_ring.h"
#include "strata/store/access_plan.h"
#include "strata/store/memory_plan.h"

namespace strata {

/// Sizes of a pass's boundary activations: what each layer reads. Boundary b is the input of layer
/// b, boundary L that of the head; a cell is one sub-batch of one boundary.
struct ActivationShape {
  int layers = 0;                ///< L
  int cells = 0;                 ///< S
  std::int64_t cell_tokens = 0;  ///< N
  std::int64_t hidden = 0;       ///< C
  DType dtype = DType::kF32;

  [[nodiscard]] std::size_t cell_bytes() const {
    return static_cast<std::size_t>(cell_tokens * hidden) * size_of(dtype);
  }
  [[nodiscard]] int keys() const { return (layers + 1) * cells; }
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
/// is needed after its slot went to another. With 2 S + 1 slots forward never reads a spilled one
/// (tier 0); two slots are enough to run.
class ActivationStore {
 public:
  static constexpr int kFewestSlots = 2;

  ActivationStore(const ActivationShape& shape, int slots, Arena& device_arena,
                  Arena& pinned_arena);
  static void plan(MemoryPlan& plan, const ActivationShape& shape, int slots);

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
  void prefetch(const Tag& tag);
  /// Bytes that have crossed the link so far, both ways.
  [[nodiscard]] std::size_t spilled_bytes() const { return spilled_bytes_; }
  [[nodiscard]] std::size_t loaded_bytes() const { return loaded_bytes_; }

 private:
  [[nodiscard]] std::int64_t key_of(int boundary, int cell) const {
    return static_cast<std::int64_t>(boundary) * shape_.cells + cell;
  }
  [[nodiscard]] ActivationLease view(Lease lease, int boundary, int cell) const;
  [[nodiscard]] int free_slot() const;
  bool load(std::int64_t key, std::int64_t needed_at, const Tag& tag);
  static bool spills(const ActivationShape& shape, int slots) { return slots < shape.keys(); }

  ActivationShape shape_;
  Device& device_;
  SlotRing ring_;
  std::vector<std::byte*> homes_;  ///< pinned, per key; empty if nothing spills
  std::vector<Event> spilled_;     ///< per key: when the home was written
  AccessPlan plan_;
  std::size_t spilled_bytes_ = 0;
  std::size_t loaded_bytes_ = 0;
};

}  // namespace strata
