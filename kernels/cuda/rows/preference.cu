// This file computes the losses of preference pairs on CUDA; CudaKernels launches it through
// operators.h. It gives the same bits in every run.
//
// The formulas are those of strata/ops/preference_formula.h, on sums over the tokens of answers.
//
// Shapes: token_loss, reference, targets and token_scale [N], pairs [P, 3], reference_logs [P, 2],
// figures [R, 4].
// Tile: one block a row of figures; its threads stride over the tokens of its pair, if it has one.
// Numerics: f32, sums by strides and then over the block in a fixed order.
// Not measured: it moves three numbers a token. Naive version: kernels/cpu.

#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

struct PairArguments {
  const float* token_loss;
  const float* reference;  ///< absent if the rule needs none, or if the next one is there
  const double* reference_logs;
  const std::int32_t* targets;
  const std::int32_t* pairs;
  const float* grad_scale;  ///< absent if token_scale is
  float* figures;
  float* token_scale;  ///< may be absent
  std::int64_t pair_count;
  PreferenceRule rule;
};

__device__ AnswerLogs<float> logs_of(const PairArguments& p, std::int32_t begin, std::int32_t end,
                                     Sum<float>* scratch) {
  float loss = 0;
  float reference = 0;
  float tokens = 0;  // whole numbers, exact below 2^24
  for (std::int32_t n = begin + static_cast<std::int32_t>(threadIdx.x); n < end; n += kThreads) {
    loss += p.token_loss[n];
    if (p.reference != nullptr) reference += p.reference[n];
    if (p.targets[n] != CrossEntropy::kIgnoreIndex) tokens += 1;
  }
  loss = block_sum(loss, scratch);
  reference = block_sum(reference, scratch);
  tokens = block_sum(tokens, scratch);
  return {-loss, -reference, fmaxf(tokens, 1.0f)};
}

__global__ void __launch_bounds__(kThreads) preference_loss(const PairArguments p) {
  __shared__ Sum<float> scratch[kMostWarps];
  const std::int64_t row = blockIdx.x;
  float* figures = p.figures + row * PreferenceLoss::kFigures;
  if (row >= p.pair_count) {
    if (threadIdx.x < PreferenceLoss::kFigures) figures[threadIdx.x] = 0;
    return;
  }
  const std::int32_t* pair = p.pairs + row * PreferenceLoss::kPairColumns;
  AnswerLogs<float> chosen = logs_of(p, pair[0], pair[1], scratch);
  AnswerLogs<float> rejected = logs_of(p, pair[1], pair[2], scratch);
  if (p.reference_logs != nullptr) {
    chosen.reference = static_cast<float>(p.reference_logs[2 * row]);
    rejected.reference = static_cast<float>(p.reference_logs[2 * row + 1]);
  }
  const PairTerms<float> terms = pair_terms(p.rule, chosen, rejected);
  if (threadIdx.x == 0) {
    figures[0] = terms.loss;
    figures[1] = terms.chosen_reward;
    figures[2] = terms.rejected_reward;
    figures[3] = terms.chosen_reward > terms.rejected_reward ? 1.0f : 0.0f;
  }
  if (p.token_scale == nullptr) return;
  const float scale = *p.grad_scale;
  for (std::int32_t n = pair[0] + static_cast<std::int32_t>(threadIdx.x); n < pair[2];
       n += kThreads) {
    p.token_scale[n] = -(n < pair[1] ? terms.d_chosen : terms.d_rejected) * scale;
  }
}

}  // namespace

void enqueue(const Context& context, const PreferenceLoss& op) {
  if (op.token_loss.dtype != DType::kF32) throw_unsupported(op.kName, op.token_loss.dtype);
  const PairArguments arguments{
      .token_loss = data<float>(op.token_loss),
      .reference = op.rule.needs_reference() ? data<float>(op.reference) : nullptr,
      .reference_logs = op.rule.needs_reference() ? data<double>(op.reference_logs) : nullptr,
      .targets = data<std::int32_t>(op.targets),
      .pairs = data<std::int32_t>(op.pairs),
      .grad_scale = data<float>(op.grad_scale),
      .figures = data<float>(op.figures),
      .token_scale = data<float>(op.token_scale),
      .pair_count = op.pairs.shape[0],
      .rule = op.rule};
  const Launch where{.name = op.kName,
                     .stream = context.stream,
                     .grid = blocks_for(op.figures.shape[0], 1),
                     .block = kThreads};
  launch(where, preference_loss, arguments);
}

const void* preference_module() { return reinterpret_cast<const void*>(&preference_loss); }

}  // namespace strata::cuda
