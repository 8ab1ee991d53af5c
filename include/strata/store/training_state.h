#pragma once

#include <array>
#include <cstddef>
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

/// How training state is laid out, and where.
struct StateOptions {
  DType compute = DType::kBF16;   ///< dtype of weights: bf16 (split master), f32 or f64
  DType gradient = DType::kBF16;  ///< the gradient that the optimizer reads is rounded to this
  DType moment = DType::kF32;     ///< of both moments: f32, which stands for f64 in f64, or bf16
  int passes = 1;                 ///< of a step; several are summed in f32
  int gradient_ring = 0;          ///< slots that layers' gradients share; 0: each has a home
  int rank = 0;
  int ranks = 1;
  int resident_blocks = 0;  ///< the first blocks: their state stays on the device, updated there
  int device_sums = 0;      ///< the first blocks: several contributions are summed on the device
  int layers = 0;           ///< of the model, if some are interleaved
  double interleave = 0;    ///< share of the layers with state on the host that is updated on the
                          ///< device, spread evenly: at f the i-th if floor((i + 1) f) > floor(i f)

  [[nodiscard]] bool resident(int block) const { return block < resident_blocks; }
  /// True for a layer whose state lives on the host and visits the device for its update.
  [[nodiscard]] bool interleaved(int block) const;
  /// Updated on the device, where its gradient lives too.
  [[nodiscard]] bool updated_on_device(int block) const {
    return resident(block) || interleaved(block);
  }
  [[nodiscard]] bool sums_on_device(int block) const {
    return block < device_sums || updated_on_device(block);
  }
};

/// One rank's shard of one block: the home of its parameters. [n] each, n = shard_elements(ranks).
/// All on the device for a resident block. Else what streams (weight, grad) is pinned; what only
/// the host's optimizer reads is pageable. Of an interleaved block the gradient is on the device,
/// everything else pinned.
struct BlockState {
  TensorView weight;       ///< [n] bf16 (high half of the master), f32 or f64
  TensorView low;          ///< [n] i16, low half of the master; absent unless weight is bf16
  TensorView m;            ///< [n] moment_storage()
  TensorView v;            ///< [n] moment_storage()
  TensorView grad;         ///< [n] gradient_storage(): what has arrived of this step's gradient;
                           ///< absent if it lands in the ring of GradientStore
  std::int64_t begin = 0;  ///< first element of the shard in the block
};

/// What an update changes of a block.
inline constexpr std::array kUpdatedTensors = {&BlockState::weight, &BlockState::low,
                                               &BlockState::m, &BlockState::v};

/// Where training state lives.
struct StateArenas {
  Arena& device;
  Arena& pinned;
  Arena& pageable;
};

/// Training state of all blocks: 14 bytes per parameter with bf16 weights and gradients (2 + 2
/// master, 8 moments, 2 gradient), 16 with f32 gradients; bf16 moments take 4 bytes less, layers in
/// a gradient ring no bytes for gradients.
class TrainingState {
 public:
  TrainingState(const ModelLayout& layout, const StateOptions& options, const StateArenas& arenas);
  static void plan(MemoryPlan& plan, const ModelLayout& layout, const StateOptions& options);
  /// How often a gradient of a block comes home in a step: once per pass and source.
  static int gradient_contributions(const ModelLayout& layout, int block,
                                    const StateOptions& options);
  /// dtype in which the gradient of a block is kept at home: f32 if several contributions are
  /// summed there, whatever it is rounded to afterwards.
  static DType gradient_storage(const ModelLayout& layout, int block, const StateOptions& options);
  /// False for layers whose gradient comes in one piece or is summed on the device, if there is a
  /// gradient ring. Interleaved layers have one: their gradients wait on the device.
  static bool has_gradient_home(const ModelLayout& layout, int block, const StateOptions& options);
  /// dtype in which moments are kept: f64 if weights are.
  static DType moment_storage(const StateOptions& options);
  /// Of kUpdatedTensors, for one parameter.
  static std::size_t updated_bytes(const StateOptions& options);

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
  /// The master weights of one shard in f64 (exact). Waits for the device if they live there.
  [[nodiscard]] std::vector<double> master(int block) const;
  /// The gradient of one shard in f64, as the optimizer reads it. Likewise.
  [[nodiscard]] std::vector<double> gradient(int block) const;

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
  void fill_on_device(int block, ThreadPool& pool, const Source& source);
  void fill_masters(int block, const Masters& masters, ThreadPool& pool, const Source& source);
  /// A tensor of this state where the host can read it: itself, or what it holds, in `copy`.
  [[nodiscard]] TensorView on_host(const TensorView& tensor, std::vector<std::byte>& copy) const;

  const ModelLayout& layout_;
  StateOptions options_;
  Device& device_;
  std::vector<BlockState> blocks_;
  /// Pinned, up to kChunkBytes each, if the device holds state: its way there and back.
  std::byte* staged_weight_ = nullptr;
  std::byte* staged_low_ = nullptr;
};

}  // namespace strata
