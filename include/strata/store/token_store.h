// The token store takes the tokens of a sweep to the device and brings drawn ones back. Whoever
// plans sweeps fills pinned buffers, and reads results from pinned buffers; the sweep computes with
// what is on the device. Everything is called by the submitting thread; only host() and results()
// block.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "strata/device/slot_ring.h"
#include "strata/model/llama_forward.h"
#include "strata/ops/sampling.h"

namespace strata {

/// At most so much has a sweep.
struct SweepShape {
  std::int64_t tokens = 0;    ///< T
  std::int64_t segments = 0;  ///< of all cells together
  /// The same in layers that keep a window, see KvWindow; 0: there are none.
  std::int64_t window_segments = 0;
  std::int64_t sampled = 0;  ///< S: tokens that are drawn or scored
  std::int64_t seen = 0;     ///< ids of penalties, of all sequences together; 0: none has any
  DType accumulator = DType::kF32;  ///< A, dtype of logarithms of probabilities
};

/// The pinned memory of a sweep, each span as long as the shape says.
struct SweepBuffers {
  std::span<std::int32_t> ids;                ///< [T]
  std::span<std::int32_t> positions;          ///< [T]
  std::span<std::int32_t> rows;               ///< [T]: of keys and values, in the group
  std::span<std::int32_t> segments;           ///< [segments, 5], see AttentionSegments
  std::span<std::int32_t> after;              ///< [S]: tokens of the sweep after which one is drawn
  std::span<std::int32_t> targets;            ///< [S]: ids that are scored, where nothing is drawn
  std::span<SamplingRow> sampling;            ///< [S]
  std::span<std::int32_t> seen;               ///< [seen]
  std::span<std::int32_t> window_rows{};      ///< [T], or empty: rows in layers that keep a window
  std::span<std::int32_t> window_segments{};  ///< [window_segments, 5]: segments there
};

/// Where keys and values of tokens are, on the device and in pinned memory.
struct KvTables {
  ConstTensorView rows;           ///< [T] i32
  ConstTensorView segments;       ///< [segments, 5] i32
  ConstTensorView host_rows;      ///< [T] i32
  ConstTensorView host_segments;  ///< [segments, 5] i32
};

/// The lease is the right to read the tokens of a sweep on the device, and to write what is drawn.
struct TokenLease {
  Lease inputs;
  Lease outputs;
  ConstTensorView ids;        ///< [T] i32
  ConstTensorView positions;  ///< [T] i32
  KvTables tables;            ///< of layers that keep all
  KvTables window_tables;     ///< of layers that keep a window, or absent
  SampledTokens sampled;      ///< all S
  ConstTensorView targets;    ///< [S] i32
  TensorView lse;             ///< [S] A, scratch of scoring
};

/// What a sweep drew or scored.
struct SweepResults {
  std::span<const std::int32_t> token;  ///< [S]
  std::vector<double> logprob;          ///< [S]
};

class TokenStore {
 public:
  struct Memory {
    Memory(const SweepShape& shape, Allocator& memory);

    SlotRing inputs;                    ///< on the device
    SlotRing outputs;                   ///< on the device
    std::byte* host_inputs = nullptr;   ///< pinned
    std::byte* host_outputs = nullptr;  ///< pinned
  };

  /// Takes the buffers from `arenas`. Both outlive the store. Throws OutOfMemory.
  TokenStore(const SweepShape& shape, Kernels& kernels, Arenas& arenas);

  /// Returns the pinned memory, to be filled for a sweep. Blocks until the last upload has ended,
  /// and whoever else reads it.
  [[nodiscard]] SweepBuffers host();
  /// Says until when the host reads the tables in pinned memory.
  void read_until(Event event) { read_ = event; }
  /// Has `compute` bring it to the device, and use it there.
  [[nodiscard]] TokenLease upload(Stream& compute, const Tag& tag);
  /// Copies what `compute` wrote to the host, on the out lane.
  void deliver(TokenLease lease, const Tag& tag);
  /// Returns what the last sweep drew, the first `count` of it. Blocks until it is there. Good
  /// until the next deliver().
  [[nodiscard]] SweepResults results(std::int64_t count);
  [[nodiscard]] const SweepShape& shape() const { return shape_; }

 private:
  SweepShape shape_;
  Kernels& kernels_;
  Device& device_;
  Memory memory_;
  Event uploaded_;
  Event read_;
  Event delivered_;
};

}  // namespace strata
