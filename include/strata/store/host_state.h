#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "strata/base/tensor.h"
#include "strata/base/thread_pool.h"
#include "strata/device/arena.h"
#include "strata/model/layout.h"
#include "strata/model/safetensors.h"
#include "strata/store/memory_plan.h"

namespace strata {

/// How training state is laid out on the host.
struct StateOptions {
  DType compute = DType::kBF16;   ///< dtype of weights: bf16 (split master), f32 or f64
  DType gradient = DType::kBF16;  ///< the gradient that the optimizer reads is rounded to this
  int passes = 1;                 ///< of a step; several are summed in f32 on the host
  int rank = 0;
  int ranks = 1;
};

/// One rank's shard of one block: the home of its parameters. [n] each, n = shard_elements(ranks).
/// What streams (weight, grad) is pinned; what only the host's optimizer reads is pageable.
struct BlockState {
  TensorView weight;       ///< [n] bf16 (high half of the master), f32 or f64
  TensorView low;          ///< [n] i16, low half of the master; absent unless weight is bf16
  TensorView m;            ///< [n] A
  TensorView v;            ///< [n] A
  TensorView grad;         ///< [n] storage_dtype(): what has arrived of this step's gradient
  std::int64_t begin = 0;  ///< first element of the shard in the block
};

/// Training state of all blocks: 14 bytes per parameter with bf16 weights and gradients (2 + 2
/// master, 8 moments, 2 gradient), 16 with f32 gradients.
class HostState {
 public:
  HostState(const ModelLayout& layout, const StateOptions& options, Arena& pinned, Arena& pageable);
  static void plan(MemoryPlan& plan, const ModelLayout& layout, const StateOptions& options);
  /// How often a gradient of a block comes home in a step: once per pass and source.
  static int gradient_contributions(const ModelLayout& layout, int block,
                                    const StateOptions& options);
  /// dtype in which the gradient of a block is kept on the host: f32 if several contributions are
  /// summed there, whatever it is rounded to afterwards.
  static DType gradient_storage(const ModelLayout& layout, int block, const StateOptions& options);

  [[nodiscard]] const ModelLayout& layout() const { return layout_; }
  [[nodiscard]] const StateOptions& options() const { return options_; }
  [[nodiscard]] int blocks() const { return static_cast<int>(blocks_.size()); }
  [[nodiscard]] BlockState& block(int i) { return blocks_.at(static_cast<std::size_t>(i)); }
  [[nodiscard]] const BlockState& block(int i) const {
    return blocks_.at(static_cast<std::size_t>(i));
  }

  /// Norm weights 1, everything else normal with the given deviation: element i of the tensor with
  /// this name is a pure function of (seed, name, i), whatever the ranks. Moments become 0.
  void initialize(std::uint64_t seed, double deviation, ThreadPool& pool);
  /// Weights from Hugging Face files, slice by slice; moments become 0. Throws IoError that names a
  /// tensor that is missing or has another shape.
  void load(const SafetensorsDirectory& files, ThreadPool& pool);
  /// The master weights of one shard in f64 (exact).
  [[nodiscard]] std::vector<double> master(int block) const;

 private:
  /// Calls fn(run, values) for every run of every shard with room for its elements, in parallel,
  /// and stores what fn wrote as master weights.
  void fill(ThreadPool& pool,
            const std::function<void(const SourceRun&, std::vector<double>&)>& fn);

  const ModelLayout& layout_;
  StateOptions options_;
  std::vector<BlockState> blocks_;
};

}  // namespace strata
