#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "strata/base/tensor.h"
#include "strata/base/thread_pool.h"
#include "strata/device/allocator.h"
#include "strata/model/layout.h"
#include "strata/model/safetensors.h"
#include "strata/store/block_plan.h"

namespace strata {

/// One rank's shard of one block in the homes that its BlockPlan names; n = shard_elements(ranks).
struct BlockState {
  TensorView weight;       ///< [n] bf16 (high half of the master), f32 or f64
  TensorView low;          ///< [n] i16, low half of the master; absent unless weight is bf16
  TensorView m;            ///< [n] StatePlan::moment
  TensorView v;            ///< [n] StatePlan::moment
  TensorView grad;         ///< [n] BlockPlan::gradient_dtype: what has arrived of this step's
                           ///< gradient; absent if the gradient has no home of its own
  std::int64_t begin = 0;  ///< first element of the shard in the block
};

/// What an update changes of a block.
inline constexpr std::array kUpdatedTensors = {&BlockState::weight, &BlockState::low,
                                               &BlockState::m, &BlockState::v};

/// Training state of all blocks: 14 bytes per parameter with bf16 weights and gradients (2 + 2
/// master, 8 moments, 2 gradient), 16 with f32 gradients; bf16 moments take 4 bytes less, layers in
/// a gradient ring no bytes for gradients.
class TrainingState {
 public:
  /// What the state takes: the tensors of all blocks in their homes, and pinned buffers through
  /// which the host reads and writes state on the device.
  struct Memory {
    Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory);

    PerBlock<BlockState> blocks;
    std::size_t staging_bytes = 0;  ///< of each of the two buffers, kChunkBytes at most
    std::byte* staged_weight = nullptr;
    std::byte* staged_low = nullptr;
  };

  /// The arguments outlive the state.
  TrainingState(const ModelLayout& layout, const StatePlan& plan, Arenas& arenas);

  [[nodiscard]] const ModelLayout& layout() const { return layout_; }
  [[nodiscard]] const StatePlan& plan() const { return plan_; }
  /// The row of a block.
  [[nodiscard]] const BlockPlan& plan(BlockId block) const { return plan_.blocks[block]; }
  [[nodiscard]] IdRange<BlockId> ids() const { return memory_.blocks.ids(); }
  [[nodiscard]] std::size_t blocks() const { return memory_.blocks.size(); }
  [[nodiscard]] BlockState& block(BlockId id) { return memory_.blocks[id]; }
  [[nodiscard]] const BlockState& block(BlockId id) const { return memory_.blocks[id]; }
  /// Elements of this rank's shard of a block.
  [[nodiscard]] std::int64_t shard_elements(BlockId id) const {
    return memory_.blocks[id].weight.elements();
  }

  /// Norm weights 1, everything else normal with the given deviation: element i of the tensor with
  /// this name is a pure function of (seed, name, i), whatever the ranks. Moments become 0.
  void initialize(std::uint64_t seed, double deviation, ThreadPool& pool);
  /// Weights from Hugging Face files, slice by slice; moments become 0. Throws IoError that names a
  /// tensor that is missing or has another shape.
  void load(const SafetensorsDirectory& files, ThreadPool& pool);
  /// The master weights of one shard in f64 (exact). Waits for the device if they live there.
  [[nodiscard]] std::vector<double> master(BlockId block) const;
  /// The gradient of one shard in f64, as the optimizer reads it. Likewise.
  [[nodiscard]] std::vector<double> gradient(BlockId block) const;

 private:
  /// Writes the values of a run; may be called by many threads at once.
  using Source = std::function<void(const SourceRun&, std::vector<double>&)>;
  /// Master weights of one block, or of a part of it, as [n] X and [n] i16 or absent.
  struct Masters {
    TensorView weight;
    TensorView low;
    std::int64_t begin = 0;  ///< first element in the block
  };

  /// Sets all state: master weights from `source`, in parallel, everything else 0.
  void fill(ThreadPool& pool, const Source& source);
  void fill_on_device(BlockId block, ThreadPool& pool, const Source& source);
  void fill_masters(BlockId block, const Masters& masters, ThreadPool& pool, const Source& source);
  /// A tensor of this state where the host can read it: itself, or what it holds, in `copy`.
  [[nodiscard]] TensorView on_host(const TensorView& tensor, std::vector<std::byte>& copy) const;

  const ModelLayout& layout_;
  StatePlan plan_;
  Device& device_;
  Memory memory_;
};

}  // namespace strata
