// The algorithm: a training step in layer-major order over sub-batches. TrainingEngine makes one
// and submits every step and validation through it. What runs where, which buffers are free and who
// waits for whom is the business of the stores; here stands only the order of the work.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "strata/model/llama.h"
#include "strata/optimizer/optimizer.h"
#include "strata/schedule/walk.h"
#include "strata/store/activation_store.h"
#include "strata/store/batch_store.h"
#include "strata/store/gradient_store.h"
#include "strata/store/kept_store.h"
#include "strata/store/loss_store.h"
#include "strata/store/weight_store.h"

namespace strata {

/// What the schedule works with; all of it outlives the schedule.
struct Stores {
  Llama& model;
  BatchStore& batches;
  WeightStore& weights;
  GradientStore& gradients;
  ActivationStore& activations;
  KeptStore& kept;
  LossStore& losses;
  Optimizer& optimizer;
};

/// What the loss of a run reads beside the tokens of the model.
struct PreferenceStream {
  bool pairs = false;  ///< the head takes pairs of answers
  /// [N, C] X on the device, beside the boundary gradients: during forward all of them hold the
  /// activations of the reference, which is the model without its adapters. Absent without one.
  TensorView spare{};
  TensorView losses{};  ///< [S * N] A on the device, of tokens by the reference; likewise
};

/// A pass over S sub-batches, unit by unit (SpeedLoader, NeurIPS 2024, section 3): every sub-batch
/// goes through a unit while its weights are on the device. Each member submits work and returns
/// without waiting for it; what is submitted depends on the config and the step alone.
class Schedule {
 public:
  /// `boundary_gradients` [S, N, C] X on the device: the gradient of the current boundary, in place
  /// for every cell. `compute` is the lane that the model runs on.
  Schedule(const Stores& stores, const Walk& walk, Stream& compute,
           std::vector<TensorView> boundary_gradients, const PreferenceStream& preference = {});

  /// One optimizer step: a pass over each host slot of the batch store in `slots`, then the update.
  void step(const StepPlan& plan, const std::vector<int>& slots);
  /// Forward alone over one host slot; `receive` gets the sums of the losses on the host
  /// lane.
  void evaluate(int slot, std::function<void(const LossSums&)> receive);

 private:
  void announce(Extent extent);
  void embedding_forward(const BatchLease& batch, int pass);
  void layer_forward(int layer, const BatchLease& batch, int pass);
  void head(const BatchLease& batch, int pass);
  void evaluate_head(const BatchLease& batch, const UnitLease& weights, const TensorView& losses);
  void reference_layer(int layer, const LayerWeights& weights, const CellBatch& tokens,
                       const TensorView& x, const KeptActivations& scratch, const Tag& tag);
  void reference_head(const HeadWeights& weights, const BatchLease& batch, const Tag& unit_tag);
  [[nodiscard]] const TensorView& reference_boundary(int boundary, int cell) const;
  [[nodiscard]] PairOutputs pair_outputs(const TensorView& losses, int cell) const;
  void layer_backward(int layer, const BatchLease& batch, int pass);
  void embedding_backward(const BatchLease& batch, int pass);
  [[nodiscard]] UnitLease acquire(UnitId unit, const Tag& tag);
  void offload(GradientLease gradients, int pass);

  Stores s_;
  Walk walk_;
  Stream& compute_;
  std::vector<TensorView> d_;  ///< per cell [N, C] X
  PreferenceStream preference_;
};

}  // namespace strata
