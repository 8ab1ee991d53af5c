// TrainingState is the home of weights, moments and gradients of this rank's shards, on the host or
// on the device as the table of blocks says. It moves nothing in a step; stores and updaters take
// views of its tensors. It fills them before the first step, from random numbers or from files, and
// reads master weights and gradients for tests and for whoever saves them.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "strata/base/tensor.h"
#include "strata/base/thread_pool.h"
#include "strata/base/work_progress.h"
#include "strata/device/allocator.h"
#include "strata/model/adapter_files.h"
#include "strata/model/layout.h"
#include "strata/model/safetensors.h"
#include "strata/ops/moment_codes.h"
#include "strata/store/block_plan.h"
#include "strata/store/packed_block.h"

namespace strata {

/// This is one rank's shard of one block, or a part of a shard, in the homes that its BlockPlan
/// names. n is shard_elements(ranks).
struct BlockState {
  TensorView weight;       ///< [n] bf16 (high half of the master, or all of it), f32 or f64; bytes
                           ///< if packed
  TensorView low;          ///< [n] i16, low half of the master; absent unless StatePlan::has_low()
  TensorView m;            ///< [n] StatePlan::moment
  TensorView v;            ///< [n] StatePlan::moment; absent if the optimizer has one moment
  TensorView scale;        ///< [n / kMomentBlock, kMomentScales] u8; absent unless m has codes
  TensorView grad;         ///< [n] BlockPlan::gradient_dtype: what has arrived of this step's
                           ///< gradient; absent if the gradient has no home of its own
  std::int64_t begin = 0;  ///< first element of the shard in the block
};

/// An update changes these tensors of a block, of which `low`, `v` and `scale` may be absent.
inline constexpr std::array kUpdatedTensors = {&BlockState::weight, &BlockState::low,
                                               &BlockState::m, &BlockState::v, &BlockState::scale};
/// Returns how many parameters a row of one of these tensors is of: the scales are those of a block
/// of codes.
[[nodiscard]] constexpr std::int64_t parameters_of_row(TensorView BlockState::*tensor) {
  return tensor == &BlockState::scale ? kMomentBlock : 1;
}
/// Returns the rows of one of these tensors that parameters [begin, begin + count) of `state` have.
/// Of codes, `begin` is a multiple of kMomentBlock.
[[nodiscard]] TensorView slice_of(const BlockState& state, TensorView BlockState::*tensor,
                                  std::int64_t begin, std::int64_t count);

/// Returns the random stream of what has this name, so that it depends on nothing else: FNV-1a.
[[nodiscard]] std::uint64_t stream_of(std::string_view name);

/// Where the adapters of a model that is read from files come from.
struct AdapterStart {
  std::uint64_t seed = 0;               ///< draws them, as TrainingState::initialize does,
  const AdapterFiles* files = nullptr;  ///< unless these files have them
};

/// Holds the training state of all blocks: 14 bytes per parameter with bf16 weights and gradients
/// (4 of the master in two halves, 8 of two moments, 2 of gradients), 16 with f32 gradients.
/// Moments in bf16 take 4 bytes less, those in 8 bits 6 less but for scales, layers in a gradient
/// ring none for gradients, and blocks that nobody updates their weights alone.
class TrainingState {
 public:
  /// This is what the state takes: the tensors of all blocks in their homes, and two pinned buffers
  /// through which the host reads and writes state on the device.
  struct Memory {
    Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory);

    PerBlock<BlockState> blocks;
    std::size_t staging_bytes = 0;  ///< of each of the two buffers, kChunkBytes at most
    std::byte* staged_weight = nullptr;
    std::byte* staged_low = nullptr;
  };

  /// Takes the memory and leaves it unset. `layout` and the arenas outlive the state. Throws
  /// OutOfMemory.
  TrainingState(const ModelLayout& layout, const StatePlan& plan, Arenas& arenas);

  [[nodiscard]] const ModelLayout& layout() const { return layout_; }
  [[nodiscard]] const StatePlan& plan() const { return plan_; }
  /// Returns the row of a block.
  [[nodiscard]] const BlockPlan& plan(BlockId block) const { return plan_.blocks[block]; }
  /// Returns all blocks, from the embedding to the head.
  [[nodiscard]] IdRange<BlockId> ids() const { return memory_.blocks.ids(); }
  /// Returns the number of blocks.
  [[nodiscard]] std::size_t blocks() const { return memory_.blocks.size(); }
  /// Returns the tensors of a block's shard.
  [[nodiscard]] BlockState& block(BlockId id) { return memory_.blocks[id]; }
  [[nodiscard]] const BlockState& block(BlockId id) const { return memory_.blocks[id]; }

  /// Returns the bytes of all weights of this rank, padding included.
  [[nodiscard]] std::size_t weight_bytes() const;

  /// Sets weights to what their Initializer says, normal numbers with the given deviation: element
  /// i of the tensor with this name is a pure function of (seed, name, i), whatever the ranks.
  /// Moments and gradients become 0. Blocks the calling thread, also for copies to the device.
  /// `work`, if it is given, counts the bytes of weights, weight_bytes() in all.
  void initialize(std::uint64_t seed, double deviation, ThreadPool& pool,
                  WorkProgress* work = nullptr);
  /// Reads weights from Hugging Face files, slice by slice; moments and gradients become 0. Blocks
  /// the calling thread, also for copies to the device. Throws IoError that names a tensor that is
  /// missing or has another shape.
  void load(const SafetensorsDirectory& files, ThreadPool& pool, WorkProgress* work = nullptr,
            const AdapterStart& adapters = {});
  /// Sets all state of trained blocks to 0. Blocks the calling thread, also for copies to the
  /// device.
  void clear(ThreadPool& pool);
  /// Writes `bytes` to one of a block's tensors, from row `first` of the shard's on, wherever it
  /// lives. On the host several threads may do so at once; on the device the submitting thread
  /// alone, which it blocks.
  void write(BlockId block, TensorView BlockState::*tensor, std::int64_t first,
             std::span<const std::byte> bytes);
  /// Returns the master weights of the shard in f64, which is exact; none of a packed block, of
  /// which a shard alone says nothing. Waits for the device if they live there; elsewhere the
  /// caller must have waited for updates of the block.
  [[nodiscard]] std::vector<double> master(BlockId block) const;
  /// Returns the gradient of the shard in f64, as the optimizer reads it, and waits as master()
  /// does. It is empty for a gradient that has no home of its own, or that nobody makes.
  [[nodiscard]] std::vector<double> gradient(BlockId block) const;

 private:
  /// These are the master weights of one block, or of a part of it.
  struct Masters {
    TensorView weight;       ///< [n] X
    TensorView low;          ///< [n] i16, or absent
    std::int64_t begin = 0;  ///< first element in the block
  };

  /// Sets all state: master weights from `source`, in parallel, and everything else to 0.
  void fill(ThreadPool& pool, const WeightSource& source, WorkProgress* work);
  void fill_packed(BlockId block, ThreadPool& pool, const WeightSource& source, WorkProgress* work);
  void fill_on_device(BlockId block, ThreadPool& pool, const WeightSource& source,
                      WorkProgress* work);
  void fill_masters(BlockId block, const Masters& masters, ThreadPool& pool,
                    const WeightSource& source, WorkProgress* work);
  /// Returns a tensor of this state where the host can read it: itself, or, if it lives on the
  /// device, what it holds, in `copy`.
  [[nodiscard]] TensorView on_host(const TensorView& tensor, std::vector<std::byte>& copy) const;

  const ModelLayout& layout_;
  StatePlan plan_;
  Device& device_;
  Memory memory_;
};

}  // namespace strata
