// The operators of a backend as one interface: Kernels::run checks an operator, reports it to the
// trace and launches it on a lane. Model, stores and optimizer call it from the submitting thread;
// each backend implements one launch per operator, and nothing here blocks in a step.
#pragma once

#include <concepts>

#include "strata/device/stream.h"
#include "strata/ops/attention.h"
#include "strata/ops/cross_entropy.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/embedding.h"
#include "strata/ops/matmul.h"
#include "strata/ops/matmul_plan.h"
#include "strata/ops/norm.h"
#include "strata/ops/optimizer.h"
#include "strata/ops/quantize.h"
#include "strata/ops/rope.h"
#include "strata/ops/swiglu.h"

namespace strata {

template <class O>
concept Op = requires(const O& op) {
  { O::kName } -> std::convertible_to<std::string_view>;
  op.check();
  { op.accesses() } -> std::same_as<Accesses>;
};

/// Returns what an operator costs. Operators that say nothing move the bytes that they access.
template <Op O>
[[nodiscard]] Cost cost_of(const O& op) {
  if constexpr (requires { op.cost(); }) {
    return op.cost();
  } else {
    return {};
  }
}

/// The operators of one backend. `run` checks, traces and launches; it never blocks.
class Kernels {
 public:
  virtual ~Kernels() = default;

  /// Throws ShapeError if the operator's tensors do not fit, BackendError if this backend cannot
  /// run it (unsupported dtype or head dim), naming the operator. Operators without elements
  /// are submitted and do nothing.
  template <Op O>
  void run(Stream& stream, const O& op, const Tag& tag) {
    op.check();
    stream.submit(
        {.name = O::kName, .kind = SubmissionKind::kKernel, .tag = tag},
        [&] { return Footprint{.accesses = op.accesses(), .cost = cost_of(op)}; },
        [&] { launch(stream, op); });
  }

  /// Makes ready what launches of this shape and layout need, so that none of them allocates or
  /// compiles; called at the start of a run. Views need no data, but a dq_sum without data is
  /// absent. Blocks; throws as run does, and OutOfMemory.
  virtual void prepare(const AttentionForward& /*op*/) {}
  virtual void prepare(const AttentionBackward& /*op*/) {}

  /// Returns what chooses how matrix products run, or null if the backend has no choice.
  [[nodiscard]] virtual MatmulTuner* matmul_tuner() { return nullptr; }

 private:
  virtual void launch(Stream&, const EmbeddingForward&) = 0;
  virtual void launch(Stream&, const EmbeddingBackward&) = 0;
  virtual void launch(Stream&, const RmsNormForward&) = 0;
  virtual void launch(Stream&, const RmsNormBackward&) = 0;
  virtual void launch(Stream&, const Rope&) = 0;
  virtual void launch(Stream&, const AttentionForward&) = 0;
  virtual void launch(Stream&, const AttentionBackward&) = 0;
  virtual void launch(Stream&, const SwigluForward&) = 0;
  virtual void launch(Stream&, const SwigluBackward&) = 0;
  virtual void launch(Stream&, const ResidualAdd&) = 0;
  virtual void launch(Stream&, const Accumulate&) = 0;
  virtual void launch(Stream&, const Cast&) = 0;
  virtual void launch(Stream&, const Fill&) = 0;
  virtual void launch(Stream&, const CrossEntropy&) = 0;
  virtual void launch(Stream&, const Matmul&) = 0;
  virtual void launch(Stream&, const SquaredNorm&) = 0;
  virtual void launch(Stream&, const CastSquaredNorm&) = 0;
  virtual void launch(Stream&, const AdamW&) = 0;
  virtual void launch(Stream&, const QuantizeRows&) = 0;
  virtual void launch(Stream&, const DequantizeRows&) = 0;
};

}  // namespace strata
