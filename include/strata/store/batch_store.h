// The batch store takes the tokens of a pass to the device. The session fills pinned buffers from
// the data between steps, and the schedule uploads them and reads them sub-batch by sub-batch.
// Everything is called by the submitting thread; only host() may block.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "strata/data/batch.h"
#include "strata/device/slot_ring.h"
#include "strata/model/llama.h"

namespace strata {

/// This is the shape and the dtype of what a pass reads of the data.
struct BatchStoreShape {
  BatchShape batch;
  DocumentMask mask = DocumentMask::kOff;
  DType scale = DType::kF32;    ///< A, dtype of the gradient scale
  int host_slots = 2;           ///< passes whose tokens are on the host at once
  bool pairs = false;           ///< documents are pairs of answers, whose table comes along
  bool reference_logs = false;  ///< and what a reference that computed before makes of them
};

/// The lease is the right to read the tokens of one pass on the device, until it is destroyed.
struct BatchLease {
  Lease lease;
  std::vector<CellBatch> cells;  ///< per sub-batch
  ConstTensorView grad_scale;    ///< [1] A
};

/// Takes batches of tokens to the device. The submitting thread fills them in pinned memory, and
/// one copy a pass brings ids, targets, positions, segments and the gradient scale to the device.
class BatchStore {
 public:
  /// So many passes may have their tokens on the device at once: one is read while the next is
  /// copied.
  static constexpr int kDeviceSlots = 2;

  /// Each of these buffers holds a whole pass.
  struct Memory {
    Memory(const BatchStoreShape& shape, Allocator& memory);

    SlotRing slots;                ///< on the device
    std::vector<std::byte*> host;  ///< pinned, one per host slot
  };

  /// Takes the buffers from `arenas`, which must outlive the store. Throws OutOfMemory.
  BatchStore(const BatchStoreShape& shape, Arenas& arenas);

  /// Returns the memory of a host slot, pinned but for the counts of segments, to be filled for a
  /// pass. The counts begin as all entries, for whoever leaves them. Blocks until the last upload
  /// from the slot has finished, so it is called between steps. Throws std::out_of_range for a slot
  /// that does not exist.
  [[nodiscard]] PassBuffers host(int slot);
  /// Writes the number with which every gradient of the pass is multiplied, 1 / valid tokens of the
  /// step.
  void set_grad_scale(int slot, double scale);
  /// Says which random numbers the tokens of each sub-batch draw. They draw none from host() on
  /// until this is called.
  void set_draws(int slot, std::span<const TokenDraws> sub_batches);
  /// Copies a host slot to the device on activations_in, for use on `compute`. Views of segment
  /// tables have the entries that are used: kernels start blocks for all that there are. Throws
  /// std::logic_error if every device slot is leased.
  [[nodiscard]] BatchLease upload(int slot, Stream& compute, const Tag& tag);

 private:
  /// These are the byte offsets of the parts of a pass in its buffer, and the buffer's size.
  struct Offsets {
    std::size_t ids, targets, positions, segments, order, pairs, reference_logs, scale, total;
  };
  static Offsets offsets(const BatchStoreShape& shape);
  [[nodiscard]] BatchLease view(Lease lease, std::size_t host_slot) const;

  BatchStoreShape shape_;
  Offsets offsets_;
  Device& device_;
  Memory memory_;
  std::vector<Event> uploaded_;                            ///< of each host slot
  std::vector<std::vector<std::int64_t>> segment_counts_;  ///< of each host slot's sub-batches
  std::vector<std::vector<std::int64_t>> pair_counts_;     ///< likewise; empty without pairs
  std::vector<std::vector<TokenDraws>> draws_;             ///< likewise, or empty
  std::int64_t uploads_ = 0;
};

}  // namespace strata
