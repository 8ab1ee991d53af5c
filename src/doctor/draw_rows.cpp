// Trials of the operators that work on rows of tokens: embedding, norms, biases, SwiGLU, sums, the
// loss. Every bound follows from how many roundings the formula can make, with room for other
// orders.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "doctor/operator_draws.h"

namespace strata {

namespace {

/// Roundings of a sum of so many terms, in any order, that are as large as the sum itself.
double of_sum(std::int64_t terms) { return 2 * static_cast<double>(terms) + 16; }

}  // namespace

void draw(EmbeddingForward& op, TrialTensors& t, const TrialShape& s) {
  op.ids = t.integers(1, s.tokens, s.vocabulary);
  op.table = t.x(2, {s.vocabulary, s.width}, s.gap);
  op.y = t.out("y", t.compute(), {s.tokens, s.width}, {.last = 0}, 2 * s.gap);
}

void draw(EmbeddingBackward& op, TrialTensors& t, const TrialShape& s) {
  constexpr std::int64_t kVocabulary = 11;  // so that tokens occur several times
  std::vector<double> ids = t.normal_a(1, s.tokens);
  for (double& id : ids) id = std::clamp(std::floor(4 * id + 5), 0.0, kVocabulary - 1.0);
  std::vector<double> order(ids.size());
  std::iota(order.begin(), order.end(), 0.0);
  std::stable_sort(order.begin(), order.end(), [&](double a, double b) {
    return ids[static_cast<std::size_t>(a)] < ids[static_cast<std::size_t>(b)];
  });
  op.ids = t.values(ids, DType::kI32, {s.tokens});
  op.order = t.values(order, DType::kI32, {s.tokens});
  op.dy = t.x(2, {s.tokens, s.width}, s.gap);
  op.d_table = t.changed("d_table", t.a(3, {kVocabulary, s.width}, s.gap),
                         {.accumulator = of_sum(s.tokens)});
}

void draw(RmsNormForward& op, TrialTensors& t, const TrialShape& s) {
  const Shape shape{s.tokens, s.width};
  // The residual sum is rounded before it is normalised, which the reference does not do.
  const double on_the_way = s.flavour % 2 == 0 ? 2 : 0;
  const Allowed allowed{.accumulator = of_sum(s.width), .intermediate = on_the_way};
  op.x = t.x(1, shape, s.gap);
  op.weight = t.x(2, {s.width});
  if (s.flavour % 2 == 0) {
    op.residual = t.x(3, shape, s.gap);
    op.sum = t.out("sum", t.compute(), shape, {.accumulator = 1}, 2 * s.gap);
  }
  op.y = t.out("y", t.compute(), shape, allowed, s.gap);
  op.rstd = t.out("rstd", t.accumulator(), {s.tokens}, allowed);
}

void draw(RmsNormBackward& op, TrialTensors& t, const TrialShape& s) {
  const Shape shape{s.tokens, s.width};
  std::vector<double> rstd = t.normal_a(1, s.tokens);
  for (double& r : rstd) r = std::abs(r);
  op.dy = t.x(2, shape, s.gap);
  op.x = t.x(3, shape, 2 * s.gap);
  op.weight = t.x(4, {s.width});
  op.rstd = t.values(rstd, t.accumulator(), {s.tokens});
  if (s.flavour % 2 == 0) op.d_residual = t.x(5, shape, s.gap);
  op.dx = t.out("dx", t.compute(), shape, {.accumulator = of_sum(s.width)}, s.gap);
  op.d_weight = t.changed("d_weight", t.a(6, {s.width}), {.accumulator = of_sum(s.tokens)});
  op.workspace = t.scratch(t.accumulator(), {RmsNormBackward::kWorkspaceRows, s.width});
}

void draw(HeadNormForward& op, TrialTensors& t, const TrialShape& s) {
  const Shape shape{s.tokens, s.heads, s.head_dim};
  const Allowed allowed{.accumulator = of_sum(s.head_dim)};
  op.x = t.x(1, shape, 8 * s.gap);
  op.weight = t.x(2, {s.head_dim});
  op.y = t.out("y", t.compute(), shape, allowed, 16 * s.gap);
  op.rstd = t.out("rstd", t.accumulator(), {s.tokens, s.heads}, allowed);
}

void draw(HeadNormBackward& op, TrialTensors& t, const TrialShape& s) {
  const Shape shape{s.tokens, s.heads, s.head_dim};
  std::vector<double> rstd = t.normal_a(1, s.tokens * s.heads);
  for (double& r : rstd) r = std::abs(r);
  op.dy = t.x(2, shape, 8 * s.gap);
  op.x = t.x(3, shape, 16 * s.gap);
  op.weight = t.x(4, {s.head_dim});
  op.rstd = t.values(rstd, t.accumulator(), {s.tokens, s.heads});
  op.dx = t.out("dx", t.compute(), shape, {.accumulator = of_sum(s.head_dim)}, 8 * s.gap);
  op.d_weight =
      t.changed("d_weight", t.a(5, {s.head_dim}), {.accumulator = of_sum(s.tokens * s.heads)});
  op.workspace = t.scratch(t.accumulator(), {HeadNormBackward::kWorkspaceRows, s.head_dim});
}

void draw(SwigluForward& op, TrialTensors& t, const TrialShape& s) {
  op.gate_up = t.x(1, {s.tokens, 2 * s.width}, s.gap);
  op.y = t.out("y", t.compute(), {s.tokens, s.width}, {.accumulator = 32}, s.gap);
}

void draw(SwigluBackward& op, TrialTensors& t, const TrialShape& s) {
  op.d_y = t.x(1, {s.tokens, s.width}, s.gap);
  op.gate_up = t.x(2, {s.tokens, 2 * s.width}, s.gap);
  op.d_gate_up =
      t.out("d_gate_up", t.compute(), {s.tokens, 2 * s.width}, {.accumulator = 64}, s.gap);
  op.y = t.out("y", t.compute(), {s.tokens, s.width}, {.accumulator = 32}, s.gap);
}

void draw(ResidualAdd& op, TrialTensors& t, const TrialShape& s) {
  op.a = t.x(1, {s.tokens, s.width}, s.gap);
  op.b = t.x(2, {s.tokens, s.width}, 2 * s.gap);
  op.y = t.out("y", t.compute(), {s.tokens, s.width}, {.accumulator = 1}, s.gap);
}

void draw(SoftCapForward& op, TrialTensors& t, const TrialShape& s) {
  op.x = t.x(1, {s.tokens, s.width}, s.gap);
  op.y = t.out("y", t.compute(), {s.tokens, s.width}, {.accumulator = 32}, 2 * s.gap);
  op.cap = 1.5;
}

void draw(SoftCapBackward& op, TrialTensors& t, const TrialShape& s) {
  op.dy = t.x(1, {s.tokens, s.width}, s.gap);
  op.y = t.x(2, {s.tokens, s.width}, 2 * s.gap);
  op.dx = t.out("dx", t.compute(), {s.tokens, s.width}, {.accumulator = 8}, s.gap);
  op.cap = 8;
}

void draw(BiasAdd& op, TrialTensors& t, const TrialShape& s) {
  op.x = t.x(1, {s.tokens, s.width}, s.gap);
  op.bias = t.x(2, {s.width});
  op.y = t.out("y", t.compute(), {s.tokens, s.width}, {.accumulator = 1}, 2 * s.gap);
}

void draw(BiasBackward& op, TrialTensors& t, const TrialShape& s) {
  op.dy = t.x(1, {s.tokens, s.width}, s.gap);
  op.d_bias = t.changed("d_bias", t.a(2, {s.width}), {.accumulator = of_sum(s.tokens)});
  op.workspace = t.scratch(t.accumulator(), {BiasBackward::kWorkspaceRows, s.width});
}

void draw(CrossEntropy& op, TrialTensors& t, const TrialShape& s) {
  const std::int64_t tokens = std::min(s.tokens, kVocabularyRows);
  const Shape shape{tokens, s.vocabulary};
  std::vector<double> logits = t.normal_x(1, shape.elements());
  for (double& logit : logits) logit *= 4;  // exact; the largest one matters
  std::vector<double> targets(static_cast<std::size_t>(tokens));
  for (std::size_t n = 0; n < targets.size(); ++n) {
    targets[n] = static_cast<double>((n * 37) % static_cast<std::size_t>(s.vocabulary));
    if (n % 5 == 1) targets[n] = CrossEntropy::kIgnoreIndex;
  }
  const Allowed allowed{.accumulator = of_sum(s.vocabulary)};
  op.logits = t.values(logits, t.compute(), shape, s.gap);
  op.targets = t.values(targets, DType::kI32, {tokens});
  op.grad_scale = t.values({0.375}, t.accumulator(), {1});
  op.loss = t.out("loss", t.accumulator(), {tokens}, allowed);
  op.lse = t.out("lse", t.accumulator(), {tokens}, allowed);
  op.d_logits = t.out("d_logits", t.compute(), shape, allowed, s.gap);
}

// In even trials the scale is a power of two, so that levels are exact whatever the precision. In
// odd ones f64 may see that a number is not quite halfway between two levels.
void draw(QuantizeRows& op, TrialTensors& t, const TrialShape& s) {
  const Shape shape{s.tokens, s.width};
  const bool exact = s.flavour % 2 == 0;
  std::vector<double> x = t.normal_x(1, shape.elements());
  constexpr double kLargest = QuantizeRows::kLevels / 32.0;
  for (std::size_t i = 0; exact && i < x.size(); ++i) {
    x[i] = i % static_cast<std::size_t>(s.width) == 0 ? kLargest
                                                      : std::clamp(x[i], -kLargest, kLargest);
  }
  op.x = t.values(x, t.compute(), shape, s.gap);
  op.q = t.out("q", DType::kI8, shape, {.last = 0, .steps = exact ? 0.0 : 1.0}, 2 * s.gap);
  op.scale = t.out("scale", DType::kF32, {s.tokens}, {.last = 0});
}

void draw(DequantizeRows& op, TrialTensors& t, const TrialShape& s) {
  const Shape shape{s.tokens, s.width};
  std::vector<double> levels = t.normal_a(1, shape.elements());
  for (double& level : levels) level = std::clamp(std::floor(40 * level), -127.0, 127.0);
  op.q = t.values(levels, DType::kI8, shape, s.gap);
  op.scale = t.values(t.normal_a(2, s.tokens), DType::kF32, {s.tokens});
  op.x = t.out("x", t.compute(), shape, {.accumulator = 1}, s.gap);
}

}  // namespace strata
