// Trials of the operators on flat runs of parameters, and of the optimizer. Their contracts say
// exactly what is rounded, so most outputs must be equal.

#include <cmath>

#include "doctor/operator_draws.h"
#include "strata/base/convert.h"

namespace strata {

namespace {

/// Returns how long the runs of a trial are: up to several blocks of a norm, never a multiple.
std::int64_t run_of(const TrialShape& s) { return s.tokens * s.width + 1; }

}  // namespace

void draw(Accumulate& op, TrialTensors& t, const TrialShape& s) {
  const std::int64_t n = run_of(s);
  op.x = t.a(1, {n});
  op.sum = t.changed("sum", t.a(2, {n}), {});
}

void draw(Cast& op, TrialTensors& t, const TrialShape& s) {
  const std::int64_t n = run_of(s);
  op.x = t.a(1, {n});
  op.y = t.out("y", t.tested(), {n}, {.last = 0});
}

void draw(Fill& op, TrialTensors& t, const TrialShape& s) {
  op.x = t.out("x", t.tested(), {run_of(s)}, {.last = 0});
  op.value = -3;
}

void draw(SquaredNorm& op, TrialTensors& t, const TrialShape& s) {
  const std::int64_t n = run_of(s);
  op.x = t.x(1, {n});
  op.partial = t.out("partial", DType::kF64, {SquaredNorm::partials(n)}, {.last = 0});
}

void draw(CastSquaredNorm& op, TrialTensors& t, const TrialShape& s) {
  const std::int64_t n = run_of(s);
  op.x = t.a(1, {n});
  op.y = t.out("y", t.tested(), {n}, {.last = 0});
  op.partial = t.out("partial", DType::kF64, {SquaredNorm::partials(n)}, {.last = 0});
}

void draw(AdamW& op, TrialTensors& t, const TrialShape& s) {
  const std::int64_t n = run_of(s);
  // Odd trials have bf16 moments, whose stochastic rounding may go either way: up to two units.
  const bool small_moments = s.flavour % 2 == 1;
  const DType moments = small_moments ? DType::kBF16 : accumulator_of(t.tested());
  const DType held = t.subject() ? moments : t.compute();
  const auto moment = [&](std::uint64_t stream, bool positive) {
    std::vector<double> drawn = t.normal_a(stream, n);
    for (double& value : drawn) {
      if (small_moments) value = static_cast<double>(Bf16(static_cast<float>(value)));
      if (positive) value = std::abs(value);
    }
    return t.values(drawn, held, {n});
  };
  const Allowed of_moments{.last = small_moments ? 2.0 : 1.0, .accumulator = 4};
  const AdamWScalars scalars{.lr = 3e-3,
                             .beta1 = 0.9,
                             .beta2 = 0.95,
                             .eps = 1e-8,
                             .correction1 = 1 - 0.9 * 0.9,
                             .correction2 = 1 - 0.95 * 0.95,
                             .grad_factor = 0.75,
                             .rounding_seed = 5};
  const std::vector<double> masters = t.normal_a(1, n);
  if (t.subject() && t.tested() == DType::kBF16) {
    std::vector<double> high;
    std::vector<double> low;
    for (const double master : masters) {
      const SplitF32 parts = split_f32(static_cast<float>(master));
      high.push_back(static_cast<double>(join_f32({.high = parts.high, .low = 0})));
      low.push_back(parts.low);
    }
    op.low = t.values(low, DType::kI16, {n});
    op.weight = t.values(high, DType::kBF16, {n});
  } else {
    op.weight = t.values(masters, t.accumulator(), {n});
  }
  static_cast<void>(t.changed("weight", op.weight, {.accumulator = 4}, op.low));
  op.m = t.changed("m", moment(2, false), of_moments);
  op.v = t.changed("v", moment(3, true), of_moments);
  op.grad = t.x(4, {n});
  op.scalars = static_cast<const AdamWScalars*>(t.bytes(&scalars, sizeof scalars));
  op.weight_decay = 0.1;
  op.rounding_stream = 7;
  op.nonfinite = t.changed("nonfinite", t.values({0}, DType::kI32, {1}), {.last = 0});
}

}  // namespace strata
