// Checks of embedding, RoPE and norms of heads, compared with their formulas in f64, token by
// token.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "op_checks/texts.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"

namespace strata {

Outputs check_embedding(OpRunner& runner, DType dtype, const RowsCase& c, double scale) {
  runner.reset(text_of(dtype, c));
  constexpr std::int64_t kVocabulary = 11;
  const DType accumulator = accumulator_of(dtype);
  const Shape shape{c.tokens, c.width};
  const Shape table_shape{kVocabulary, c.width};
  const auto width = static_cast<std::size_t>(c.width);
  std::vector<double> ids = random_integers(1, c.tokens, kVocabulary);
  if (!ids.empty()) ids.back() = kVocabulary - 1;
  std::vector<double> order(ids.size());
  std::iota(order.begin(), order.end(), 0.0);
  std::stable_sort(order.begin(), order.end(), [&](double a, double b) {
    return ids[static_cast<std::size_t>(a)] < ids[static_cast<std::size_t>(b)];
  });
  const auto table = random_values(2, table_shape.elements(), dtype);
  const auto dy = random_values(3, shape.elements(), dtype);
  const auto before = random_values(4, table_shape.elements(), accumulator);

  const double factor = rounded_to(dtype, scale);
  std::vector<double> y(dy.size());
  Expected d_table(table_shape.elements());
  d_table.values = before;
  for (std::size_t i = 0; i < before.size(); ++i) d_table.error[i] = std::abs(before[i]);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const std::size_t row = static_cast<std::size_t>(ids[i / width]) * width + i % width;
    y[i] = rounded_to(dtype, rounded_to(accumulator, factor * table[row]));
    d_table.values[row] += factor * dy[i];
    d_table.error[row] += (scale == 1 ? 1 : 2) * std::abs(factor * dy[i]);
  }
  // Each of at most N additions rounds a partial sum no larger than the sum of magnitudes.
  for (double& e : d_table.error) e *= static_cast<double>(c.tokens);

  const TensorView d_ids = runner.upload(ids, DType::kI32, {c.tokens});
  const EmbeddingForward forward{.ids = d_ids,
                                 .table = runner.upload(table, dtype, table_shape, c.width + c.gap),
                                 .y = runner.output(dtype, shape, c.width + 2 * c.gap),
                                 .scale = scale};
  const EmbeddingBackward backward{
      .ids = d_ids,
      .order = runner.upload(order, DType::kI32, {c.tokens}),
      .dy = runner.upload(dy, dtype, shape, c.width + c.gap),
      .d_table = runner.upload(before, accumulator, table_shape, c.width + c.gap),
      .scale = scale};
  runner.run(forward);
  runner.require_equal("y", forward.y, y);
  runner.run(backward);
  runner.require_close("d_table", backward.d_table, d_table, accumulator);
  return runner.outputs();
}

std::vector<RopeCase> rope_cases() {
  return {{1, 1, 2, 0}, {0, 2, 4, 0}, {7, 3, 10, 5}, {33, 4, 64, 0}, {19, 2, 128, 256}};
}

namespace {

constexpr std::int64_t kPositions = 50;

/// The tables of kPositions positions and `half` pairs, as the accumulator holds them.
struct RopeNumbers {
  std::vector<double> cosine, sine;

  RopeNumbers(std::int64_t half, DType accumulator)
      : cosine(static_cast<std::size_t>(kPositions * half)), sine(cosine.size()) {
    for (std::size_t i = 0; i < cosine.size(); ++i) {
      const std::size_t position = i / static_cast<std::size_t>(half);
      const std::size_t pair = i % static_cast<std::size_t>(half);
      const double angle = static_cast<double>(position) *
                           std::pow(1e4, -static_cast<double>(pair) / static_cast<double>(half));
      cosine[i] = rounded_to(accumulator, std::cos(angle));
      sine[i] = rounded_to(accumulator, std::sin(angle));
    }
  }
};

}  // namespace

Outputs check_rope(OpRunner& runner, DType dtype, const RopeCase& c, const RopeForm& form) {
  runner.reset(fmt::format("{}, heads of {} times that, {}", text_of(dtype, c), form.multiple,
                           form.pairs == RopePairs::kHalves ? "halves" : "neighbours"));
  const DType accumulator = accumulator_of(dtype);
  const std::int64_t half = c.head_dim / 2;
  const std::int64_t head_dim = form.multiple * c.head_dim;
  const bool halves = form.pairs == RopePairs::kHalves;
  const Shape shape{c.tokens, c.heads, head_dim};
  const Shape table_shape{kPositions, half};
  const std::int64_t stride = c.heads * head_dim + c.gap;
  const auto x = random_values(1, shape.elements(), dtype);
  const auto positions = random_integers(2, c.tokens, kPositions);
  const RopeNumbers numbers(half, accumulator);
  const std::vector<double>& cosine = numbers.cosine;
  const std::vector<double>& sine = numbers.sine;
  const auto turned = [&](double direction) {
    Expected out(shape.elements());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto d = static_cast<std::int64_t>(i) % head_dim;
      if (d >= c.head_dim) {
        out.values[i] = x[i];
        continue;
      }
      const std::int64_t pair = halves ? d % half : d / 2;
      const bool is_first = halves ? d < half : d % 2 == 0;
      const std::int64_t between = halves ? half : 1;
      const auto token = i / static_cast<std::size_t>(c.heads * head_dim);
      const auto angle =
          static_cast<std::size_t>(static_cast<std::int64_t>(positions[token]) * half + pair);
      const auto other =
          static_cast<std::size_t>(static_cast<std::int64_t>(i) + (is_first ? between : -between));
      const double sign = is_first ? -1 : 1;
      const double kept = x[i] * cosine[angle];
      const double crossed = sign * direction * x[other] * sine[angle];
      out.values[i] = kept + crossed;
      out.error[i] = 2 * (std::abs(kept) + std::abs(crossed));
    }
    return out;
  };
  for (const RopeDirection direction : {RopeDirection::kForward, RopeDirection::kBackward}) {
    Rope op;
    op.x = runner.upload(x, dtype, shape, stride);
    op.positions = runner.upload(positions, DType::kI32, {c.tokens});
    op.cos = runner.upload(cosine, accumulator, table_shape);
    op.sin = runner.upload(sine, accumulator, table_shape);
    op.direction = direction;
    op.pairs = form.pairs;
    runner.run(op);
    runner.require_close("x", op.x, turned(direction == RopeDirection::kForward ? 1 : -1),
                         accumulator);
  }
  return runner.outputs();
}

namespace {

/// What the norms of one head give and may be off by. Errors are counted as check_rmsnorm_forward
/// and check_rmsnorm_backward count them.
struct NormedHead {
  const double* x;
  const double* dy;
  const double* weight;
  double offset;  ///< of weights; where it is not 0, its sum with one is rounded
  std::size_t size;
  double rstd = 0;

  void forward(double eps, double* y, double* y_error) {
    const auto width = static_cast<double>(size);
    double squares = 0;
    for (std::size_t i = 0; i < size; ++i) squares += x[i] * x[i];
    rstd = 1 / std::sqrt(squares / width + eps);
    for (std::size_t i = 0; i < size; ++i) {
      y[i] = x[i] * rstd * (weight[i] + offset);
      y_error[i] = (width / 2 + 6 + (offset == 0 ? 0 : 1)) * std::abs(y[i]);
    }
  }
  /// `given_rstd` is that of forward, rounded to A.
  void backward(double given_rstd, double* dx, double* dx_error) const {
    const auto width = static_cast<double>(size);
    double sum = 0;
    double magnitude = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const double term = (weight[i] + offset) * dy[i] * x[i] * given_rstd;
      sum += term;
      magnitude += std::abs(term);
    }
    for (std::size_t i = 0; i < size; ++i) {
      const double g = (weight[i] + offset) * dy[i];
      const double xhat = x[i] * given_rstd;
      dx[i] = given_rstd * (g - xhat * sum / width);
      dx_error[i] =
          (offset == 0 ? 5 : 6) * given_rstd * std::abs(g) +
          (width + (offset == 0 ? 9 : 10)) * given_rstd * std::abs(xhat) * magnitude / width;
    }
  }
};

}  // namespace

Outputs check_head_norm(OpRunner& runner, DType dtype, const RopeCase& c, bool in_place,
                        double offset) {
  runner.reset(text_of(dtype, c));
  const DType accumulator = accumulator_of(dtype);
  const Shape shape{c.tokens, c.heads, c.head_dim};
  const std::int64_t count = c.tokens * c.heads;
  const auto size = static_cast<std::size_t>(c.head_dim);
  const double eps = 1e-5;
  const auto x = random_values(1, shape.elements(), dtype);
  const auto dy = random_values(2, shape.elements(), dtype);
  const auto weight = random_values(3, c.head_dim, dtype);
  const auto before = random_values(4, c.head_dim, accumulator);
  Expected y(shape.elements());
  Expected rstd(count);
  Expected dx(shape.elements());
  Expected d_weight(c.head_dim);
  std::vector<double> given_rstd(static_cast<std::size_t>(count));
  d_weight.values = before;
  for (std::size_t i = 0; i < size; ++i) d_weight.error[i] = std::abs(before[i]);
  for (std::size_t h = 0; h < given_rstd.size(); ++h) {
    const std::size_t at = h * size;
    NormedHead head{.x = x.data() + at,
                    .dy = dy.data() + at,
                    .weight = weight.data(),
                    .offset = offset,
                    .size = size};
    head.forward(eps, y.values.data() + at, y.error.data() + at);
    rstd.values[h] = head.rstd;
    rstd.error[h] = (static_cast<double>(size) / 2 + 4) * head.rstd;
    given_rstd[h] = rounded_to(accumulator, head.rstd);
    head.backward(given_rstd[h], dx.values.data() + at, dx.error.data() + at);
    for (std::size_t i = 0; i < size; ++i) {
      const double term = dy[at + i] * x[at + i] * given_rstd[h];
      d_weight.values[i] += term;
      d_weight.error[i] += static_cast<double>(count + 3) * std::abs(term);
    }
  }
  const std::int64_t stride = c.heads * c.head_dim + c.gap;
  const TensorView d_x = runner.upload(x, dtype, shape, stride);
  const TensorView d_dy = runner.upload(dy, dtype, shape, stride);
  const TensorView d_w = runner.upload(weight, dtype, {c.head_dim});
  HeadNormBackward backward{
      .dy = d_dy,
      .x = d_x,
      .weight = d_w,
      .rstd = runner.upload(given_rstd, accumulator, {c.tokens, c.heads}),
      .dx = in_place ? d_dy : runner.output(dtype, shape, stride),
      .d_weight = runner.upload(before, accumulator, {c.head_dim}),
      .workspace = runner.output(accumulator, {HeadNormBackward::kWorkspaceRows, c.head_dim}),
      .offset = offset};
  runner.run(backward);
  runner.require_close("dx", backward.dx, dx, accumulator);
  runner.require_close("d_weight", backward.d_weight, d_weight, accumulator);
  if (!in_place) {
    const std::vector<double> with_d_weight = runner.download(backward.dx);
    backward.d_weight = {};
    backward.dx = runner.output(dtype, shape, stride);
    runner.run(backward);
    runner.require_equal("dx where nobody trains the weight", backward.dx, with_d_weight);
  }
  const HeadNormForward forward{
      .x = d_x,
      .weight = d_w,
      .y = in_place ? d_x : runner.output(dtype, shape, stride),
      .rstd = in_place ? TensorView{} : runner.output(accumulator, {c.tokens, c.heads}),
      .eps = eps,
      .offset = offset};
  runner.run(forward);
  runner.require_close("y", forward.y, y, accumulator);
  if (forward.rstd) runner.require_close("rstd", forward.rstd, rstd, accumulator);
  return runner.outputs();
}

namespace {

/// Returns what the rotation of normalised heads gives. The norm's errors reach both numbers of a
/// pair, and the norm is rounded to the compute dtype before.
Expected turned_heads(const Expected& y, const RopeCase& c, const std::vector<double>& positions,
                      const RopeNumbers& numbers) {
  Expected out = y;
  out.intermediate_error.resize(y.values.size());
  const auto half = static_cast<std::size_t>(c.head_dim / 2);
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    const std::size_t column = i % (2 * half);
    const bool is_first = column < half;
    const std::size_t other = is_first ? i + half : i - half;
    const auto token = i / (static_cast<std::size_t>(c.heads) * 2 * half);
    const std::size_t angle = static_cast<std::size_t>(positions[token]) * half + column % half;
    const double cosine = numbers.cosine[angle];
    const double sine = is_first ? -numbers.sine[angle] : numbers.sine[angle];
    const double size = std::abs(y.values[i] * cosine) + std::abs(y.values[other] * sine);
    out.values[i] = y.values[i] * cosine + y.values[other] * sine;
    out.error[i] = 2 * size + std::abs(cosine) * y.error[i] + std::abs(sine) * y.error[other];
    out.intermediate_error[i] = size;
  }
  return out;
}

}  // namespace

Outputs check_turned_head_norm(OpRunner& runner, DType dtype, const RopeCase& c, bool in_place) {
  runner.reset(text_of(dtype, c) + ", turned");
  const DType accumulator = accumulator_of(dtype);
  const Shape shape{c.tokens, c.heads, c.head_dim};
  const std::int64_t stride = c.heads * c.head_dim + c.gap;
  const auto x = random_values(1, shape.elements(), dtype);
  const auto weight = random_values(2, c.head_dim, dtype);
  const auto positions = random_integers(3, c.tokens, kPositions);
  const RopeNumbers numbers(c.head_dim / 2, accumulator);
  const Shape table{kPositions, c.head_dim / 2};
  Expected normed(shape.elements());
  for (std::size_t at = 0; at < x.size(); at += static_cast<std::size_t>(c.head_dim)) {
    NormedHead head{.x = x.data() + at,
                    .dy = nullptr,
                    .weight = weight.data(),
                    .offset = 0,
                    .size = static_cast<std::size_t>(c.head_dim)};
    head.forward(1e-5, normed.values.data() + at, normed.error.data() + at);
  }
  const auto norm = [&] {
    const TensorView d_x = runner.upload(x, dtype, shape, stride);
    return HeadNormForward{
        .x = d_x,
        .weight = runner.upload(weight, dtype, {c.head_dim}),
        .y = in_place ? d_x : runner.output(dtype, shape, stride + c.gap),
        .rstd = in_place ? TensorView{} : runner.output(accumulator, {c.tokens, c.heads})};
  };
  const HeadNormForward first = norm();
  const Rope second{.x = first.y,
                    .positions = runner.upload(positions, DType::kI32, {c.tokens}),
                    .cos = runner.upload(numbers.cosine, accumulator, table),
                    .sin = runner.upload(numbers.sine, accumulator, table)};
  runner.run(first);
  runner.run(second);
  const std::vector<double> y_of_parts = runner.download(second.x);
  HeadNormForward both = norm();
  both.rotation = second.angles();
  runner.run(both);
  runner.require_close("y", both.y, turned_heads(normed, c, positions, numbers), accumulator,
                       dtype);
  runner.require_equal("y beside that of its parts", both.y, y_of_parts);
  if (both.rstd) {
    runner.require_equal("rstd beside that of its parts", both.rstd, runner.download(first.rstd));
  }
  return runner.outputs();
}

}  // namespace strata
