// Checks of the losses of preference pairs, compared with the formulas of the papers, written as
// they stand there, in f64; and of the factors that cross-entropy takes row by row.

#include <algorithm>
#include <array>
#include <cmath>

#include "op_checks/texts.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"

namespace strata {

namespace {

/// The sums of an answer in f64.
struct Sums {
  double loss = 0;
  double reference = 0;
  double tokens = 0;
};

Sums sums_of(const std::vector<double>& loss, const std::vector<double>& reference,
             const std::vector<double>& targets, const std::array<std::size_t, 2>& range) {
  Sums sums;
  for (std::size_t n = range[0]; n < range[1]; ++n) {
    sums.loss += loss[n];
    sums.reference += reference[n];
    sums.tokens += targets[n] == CrossEntropy::kIgnoreIndex ? 0 : 1;
  }
  return sums;
}

double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

/// The loss of a pair as a function of the log-probabilities that the rule compares.
double loss_of(const PreferenceRule& rule, double chosen, double rejected) {
  const double odds = std::log(std::exp(chosen) / (1 - std::exp(chosen))) -
                      std::log(std::exp(rejected) / (1 - std::exp(rejected)));
  const double margin = rule.beta * (chosen - rejected) - rule.gamma;
  switch (rule.objective) {
    case Preference::kIpo: return std::pow(chosen - rejected - 1 / (2 * rule.beta), 2);
    case Preference::kOrpo: return -chosen - rule.beta * std::log(sigmoid(odds));
    case Preference::kDpo:
    case Preference::kSimpo: break;
  }
  return -(1 - rule.label_smoothing) * std::log(sigmoid(margin)) -
         rule.label_smoothing * std::log(sigmoid(-margin));
}

}  // namespace

Outputs check_preference(OpRunner& runner, DType dtype, const PreferenceRule& rule) {
  runner.reset(std::string(name_of(dtype)));
  // Answers of few and of many tokens, and more rows of figures than pairs.
  constexpr std::array<std::size_t, 9> kEnds{0, 2, 5, 1030, 1500, 1633, 1700, 1703, 1705};
  constexpr std::size_t kPairs = kEnds.size() / 2;
  constexpr std::size_t kRows = kPairs + 3;
  constexpr std::size_t kTokens = kEnds.back();
  const DType accumulator = accumulator_of(dtype);
  std::vector<double> loss = random_values(1, kTokens, dtype);
  std::vector<double> reference = random_values(2, kTokens, dtype);
  std::vector<double> targets = random_integers(3, kTokens, 50);
  for (std::size_t n = 0; n < kTokens; ++n) {
    const bool ends = std::ranges::find(kEnds, n + 1) != kEnds.end();
    if (ends || n % 7 == 3) targets[n] = CrossEntropy::kIgnoreIndex;
    const double counts = targets[n] == CrossEntropy::kIgnoreIndex ? 0 : 1;
    loss[n] = counts * rounded_to(accumulator, (std::abs(loss[n]) + 0.125) / 64);
    reference[n] = counts * rounded_to(accumulator, (std::abs(reference[n]) + 0.125) / 64);
  }
  const double grad_scale = 0.375;
  std::vector<double> pairs;
  std::vector<double> reference_logs;
  Expected figures(static_cast<std::int64_t>(kRows) * PreferenceLoss::kFigures);
  Expected token_scale(static_cast<std::int64_t>(kTokens));
  for (std::size_t p = 0; p < kPairs; ++p) {
    const std::array<std::size_t, 3> at{kEnds[2 * p], kEnds[2 * p + 1], kEnds[2 * p + 2]};
    for (const std::size_t end : at) pairs.push_back(static_cast<double>(end));
    const Sums chosen = sums_of(loss, reference, targets, {at[0], at[1]});
    const Sums rejected = sums_of(loss, reference, targets, {at[1], at[2]});
    reference_logs.insert(reference_logs.end(), {-chosen.reference, -rejected.reference});
    const bool summed = rule.objective == Preference::kDpo;
    const auto compared = [&](const Sums& s) {
      return (-s.loss + (rule.needs_reference() ? s.reference : 0)) / (summed ? 1 : s.tokens);
    };
    const double c = compared(chosen);
    const double r = compared(rejected);
    constexpr double kStep = 1e-5;  // central differences are right to 1e-9
    const double d_c = (loss_of(rule, c + kStep, r) - loss_of(rule, c - kStep, r)) / (2 * kStep);
    const double d_r = (loss_of(rule, c, r + kStep) - loss_of(rule, c, r - kStep)) / (2 * kStep);
    const double rewards[] = {rule.beta * c, rule.beta * r};
    // Sums of so many terms, each rounded, and the slope of what is made of them.
    const double size = chosen.loss + chosen.reference + rejected.loss + rejected.reference;
    const double error = 64 * (1 + rule.beta) * (1 + rule.beta) * (1 + size);
    double* const row = figures.values.data() + p * PreferenceLoss::kFigures;
    double* const errors = figures.error.data() + p * PreferenceLoss::kFigures;
    row[0] = loss_of(rule, c, r);
    errors[0] = error * (1 + std::abs(d_c) + std::abs(d_r) + row[0]);
    row[1] = rewards[0];
    row[2] = rewards[1];
    errors[1] = errors[2] = error;
    row[3] = rewards[0] > rewards[1] ? 1 : 0;
    for (std::size_t n = at[0]; n < at[2]; ++n) {
      const double tokens = n < at[1] ? chosen.tokens : rejected.tokens;
      token_scale.values[n] = -(n < at[1] ? d_c : d_r) / (summed ? 1 : tokens) * grad_scale;
      token_scale.error[n] = error * (1 + std::abs(token_scale.values[n]));
    }
  }
  PreferenceLoss op;
  op.rule = rule;
  const auto n = static_cast<std::int64_t>(kTokens);
  op.token_loss = runner.upload(loss, accumulator, {n});
  op.reference = runner.upload(reference, accumulator, {n});
  op.targets = runner.upload(targets, DType::kI32, {n});
  op.pairs = runner.upload(pairs, DType::kI32, {kPairs, PreferenceLoss::kPairColumns});
  op.grad_scale = runner.upload({grad_scale}, accumulator, {1});
  const auto run = [&] {
    op.figures = runner.output(accumulator, {kRows, PreferenceLoss::kFigures});
    op.token_scale = runner.output(accumulator, {n});
    runner.run(op);
    // f64 is as exact as the differences that it is compared with.
    const DType working = accumulator == DType::kF64 ? DType::kF32 : accumulator;
    runner.require_close("figures", op.figures, figures, working);
    runner.require_close("token_scale", op.token_scale, token_scale, working);
  };
  run();
  if (!rule.needs_reference()) return runner.outputs();
  op.reference = {};
  op.reference_logs = runner.upload(reference_logs, DType::kF64, {kPairs, 2});
  run();
  return runner.outputs();
}

}  // namespace strata
