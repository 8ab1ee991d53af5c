#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "strata/model/llama.h"
#include "strata/optimizer/optimizer_engine.h"
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
  OptimizerEngine& optimizer;
};

/// The algorithm: layer-major order over sub-batches (SpeedLoader, NeurIPS 2024, section 3). Every
/// member submits work and returns without waiting for it.
class Schedule {
 public:
  /// `boundary_gradients` [S, N, C] X on the device: the gradient of the current boundary, in place
  /// for every cell.
  Schedule(const Stores& stores, const WalkOptions& options, Stream& compute,
           std::vector<TensorView> boundary_gradients);

  /// One optimizer step: a pass over each host slot of the batch store in `slots`, then the update.
  void step(const StepPlan& plan, const std::vector<int>& slots);
  /// Forward alone over one host slot; `receive` gets the sum of the losses on the host lane.
  void evaluate(int slot, std::function<void(double)> receive);

 private:
  void forward(const BatchLease& batch, int pass);
  void loss(const BatchLease& batch, int pass);
  void backward(const BatchLease& batch, int pass);
  void offload(GradientLease gradients, int pass);
  [[nodiscard]] std::vector<UnitLease> acquire(const Visit& visit, const Tag& tag);

  Stores s_;
  Walk walk_;
  int layers_;
  Stream& compute_;
  std::vector<TensorView> d_;  ///< per cell [N, C] X
};

}  // namespace strata
