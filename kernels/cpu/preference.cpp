// This file computes the losses of preference pairs on the CPU; CpuKernels calls it through
// operators.h. All is in A; the formulas are those of strata/ops/preference_formula.h.

#include <algorithm>

#include "kernels/cpu/lane_sum.h"
#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"
#include "strata/ops/cross_entropy.h"

namespace strata::cpu {

namespace {

/// Tokens [begin, end) of a cell.
struct Answer {
  std::int64_t begin;
  std::int64_t end;
};

template <class A>
AnswerLogs<A> logs_of(const PreferenceLoss& op, const Answer& answer) {
  const std::int64_t count = answer.end - answer.begin;
  const std::int32_t* targets = op.targets.as<std::int32_t>() + answer.begin;
  const auto sum = [&](const ConstTensorView& losses) {
    const A* of = losses.as<A>() + answer.begin;
    return lane_sum<A>(count, [of](std::int64_t i) { return of[i]; });
  };
  const auto tokens = count - std::count(targets, targets + count, CrossEntropy::kIgnoreIndex);
  return {.log_probability = -sum(op.token_loss),
          .reference = op.rule.needs_reference() ? -sum(op.reference) : A{0},
          .tokens = static_cast<A>(std::max<std::int64_t>(1, tokens))};
}

template <class A>
void take_pair(const PreferenceLoss& op, const std::int32_t* pair, A* figures) {
  const Answer chosen{pair[0], pair[1]};
  const Answer rejected{pair[1], pair[2]};
  const PairTerms<A> terms = pair_terms(op.rule, logs_of<A>(op, chosen), logs_of<A>(op, rejected));
  figures[0] = terms.loss;
  figures[1] = terms.chosen_reward;
  figures[2] = terms.rejected_reward;
  figures[3] = terms.chosen_reward > terms.rejected_reward ? A{1} : A{0};
  if (!op.token_scale) return;
  const A scale = op.grad_scale.as<A>()[0];
  A* out = op.token_scale.as<A>();
  std::fill(out + chosen.begin, out + chosen.end, -terms.d_chosen * scale);
  std::fill(out + rejected.begin, out + rejected.end, -terms.d_rejected * scale);
}

}  // namespace

void execute(const Context& context, const PreferenceLoss& op) {
  const auto run = [&]<class A>(A) {
    const std::int64_t pairs = op.pairs.shape[0];
    const auto* table = op.pairs.as<std::int32_t>();
    A* figures = op.figures.as<A>();
    const std::int64_t rows = op.figures.shape[0];
    const std::int64_t work = op.token_loss.elements() / std::max<std::int64_t>(1, rows) + 1;
    context.pool.parallel_for(rows, grain_for(work), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        A* own = figures + p * PreferenceLoss::kFigures;
        if (p < pairs) {
          take_pair(op, table + p * PreferenceLoss::kPairColumns, own);
        } else {
          std::fill_n(own, PreferenceLoss::kFigures, A{0});
        }
      }
    });
  };
  if (op.token_loss.dtype == DType::kF64) return run(double{});
  run(float{});
}

}  // namespace strata::cpu
