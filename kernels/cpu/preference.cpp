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
AnswerLogs<A> logs_of(const PreferenceLoss& op, const Answer& answer, const double* stored) {
  const std::int64_t count = answer.end - answer.begin;
  const std::int32_t* targets = op.targets.as<std::int32_t>() + answer.begin;
  const auto sum = [&](const ConstTensorView& losses) {
    const A* of = losses.as<A>() + answer.begin;
    return lane_sum<A>(count, [of](std::int64_t i) { return of[i]; });
  };
  const auto tokens = count - std::count(targets, targets + count, CrossEntropy::kIgnoreIndex);
  AnswerLogs<A> logs{.log_probability = -sum(op.token_loss),
                     .tokens = static_cast<A>(std::max<std::int64_t>(1, tokens))};
  if (!op.rule.needs_reference()) return logs;
  logs.reference = stored != nullptr ? static_cast<A>(*stored) : -sum(op.reference);
  return logs;
}

template <class A>
void take_pair(const PreferenceLoss& op, std::int64_t p, A* figures) {
  const auto* pair = op.pairs.as<std::int32_t>() + p * PreferenceLoss::kPairColumns;
  const auto* stored = op.reference_logs ? op.reference_logs.as<double>() + 2 * p : nullptr;
  const Answer chosen{pair[0], pair[1]};
  const Answer rejected{pair[1], pair[2]};
  const PairTerms<A> terms =
      pair_terms(op.rule, logs_of<A>(op, chosen, stored),
                 logs_of<A>(op, rejected, stored != nullptr ? stored + 1 : nullptr));
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
    A* figures = op.figures.as<A>();
    const std::int64_t rows = op.figures.shape[0];
    const std::int64_t work = op.token_loss.elements() / std::max<std::int64_t>(1, rows) + 1;
    context.pool.parallel_for(rows, grain_for(work), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        A* own = figures + p * PreferenceLoss::kFigures;
        if (p < pairs) {
          take_pair(op, p, own);
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
