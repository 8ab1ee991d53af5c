// Cases of attention, compared with the formulas of strata/ops/attention.h as nested loops in f64.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "src/model/heads.h"
#include "support/catch.h"
#include "support/op_cases.h"
#include "support/op_reference.h"

namespace strata::test {

namespace {

using Values = std::vector<double>;

/// Element [token, head, 0] of a tensor with `heads` heads.
struct Index {
  std::int64_t heads, width;
  [[nodiscard]] std::int64_t operator()(std::int64_t token, std::int64_t head) const {
    return (token * heads + head) * width;
  }
};

struct Inputs {
  Values q, k, v, d_o;
  double scale;
  std::int64_t window;
  double cap;
  Index at_q, at_k;
  std::int64_t group;
  std::vector<SegmentEntry> segments;
  Values positions, cos, sin;  ///< of the rotation; cos and sin [kPositions, D/2]

  Inputs(const AttentionCase& c, DType dtype)
      : q(random_values(1, c.queries * c.heads * c.head_dim, dtype)),
        k(random_values(2, c.keys * c.kv_heads * c.head_dim, dtype)),
        v(random_values(3, c.keys * c.kv_heads * c.head_dim, dtype)),
        d_o(random_values(4, c.queries * c.heads * c.head_dim, dtype)),
        scale(rounded_to(accumulator_of(dtype), 1 / std::sqrt(static_cast<double>(c.head_dim)))),
        window(c.window),
        cap(rounded_to(accumulator_of(dtype), c.score_cap)),
        at_q{c.heads, c.head_dim},
        at_k{c.kv_heads, c.head_dim},
        group(c.heads / c.kv_heads),
        segments(c.segments) {
    for (std::int64_t begin = 0; c.uniform_length > 0 && begin < c.queries;
         begin += c.uniform_length) {
      const auto first = static_cast<std::int32_t>(begin);
      const auto length = static_cast<std::int32_t>(c.uniform_length);
      segments.push_back({first, first, length, length, 0});
    }
    if (!c.turned) return;
    positions = random_integers(5, c.queries, kPositions);
    for (const double angle : random_values(6, kPositions * c.head_dim / 2, DType::kF32)) {
      cos.push_back(rounded_to(accumulator_of(dtype), std::cos(angle)));
      sin.push_back(rounded_to(accumulator_of(dtype), std::sin(angle)));
    }
  }
  static constexpr std::int64_t kPositions = 50;
};

/// A dot product and the sum of its terms' magnitudes.
struct Dot {
  double sum = 0;
  double magnitude = 0;

  /// Has several sums under way: each addition waits for the one before.
  Dot(const double* a, const double* b, std::int64_t count) {
    constexpr std::size_t kSums = 8;
    std::array<double, kSums> sums{};
    std::array<double, kSums> magnitudes{};
    const auto size = static_cast<std::size_t>(count);
    for (std::size_t begin = 0; begin < size; begin += kSums) {
      for (std::size_t i = begin; i < std::min(begin + kSums, size); ++i) {
        const double product = a[i] * b[i];
        sums[i - begin] += product;
        magnitudes[i - begin] += std::abs(product);
      }
    }
    for (std::size_t i = 0; i < kSums; ++i) {
      sum += sums[i];
      magnitude += magnitudes[i];
    }
  }
};

/// One query's row of scores, probabilities and their errors (in units of A's roundoff), from the
/// key k_begin on. `slope` is the derivative of a score by what it was before it was capped.
struct Row {
  std::int64_t token, head, kv_head, k_begin;
  Values s, s_error, p, slope, slope_error;
  double lse = -std::numeric_limits<double>::infinity();
  double lse_error = 0;

  void add(double score, double score_error, double score_slope, double error_of_slope) {
    s.push_back(score);
    s_error.push_back(score_error);
    slope.push_back(score_slope);
    slope_error.push_back(error_of_slope);
  }
};

Row row_of(const Inputs& in, const SegmentEntry& segment, std::int64_t i, std::int64_t head) {
  const auto [q_begin, k_begin, q_length, k_length, q_offset] = segment;
  const std::int64_t first =
      in.window == 0 ? 0 : std::max<std::int64_t>(0, i + q_offset - in.window + 1);
  Row row{q_begin + i, head, head / in.group, k_begin + first, {}, {}, {}, {}, {}};
  const std::int64_t width = in.at_q.width;
  for (std::int64_t j = first; j < k_length && j <= i + q_offset; ++j) {
    const double* q = in.q.data() + in.at_q(row.token, head);
    const double* k = in.k.data() + in.at_k(k_begin + j, row.kv_head);
    const Dot dot(q, k, width);
    const double score = dot.sum * in.scale;
    const double error = static_cast<double>(width + 2) * dot.magnitude * in.scale;
    if (in.cap == 0) {
      row.add(score, error, 1, 0);
      continue;
    }
    // A tanh may be off by some units in its last place.
    const double t = std::tanh(score / in.cap);
    const double slope = 1 - t * t;
    row.add(in.cap * t, slope * error + 8 * in.cap * std::abs(t), slope,
            2 * std::abs(t) * (slope * error / in.cap + 8 * std::abs(t)) + 2);
  }
  if (row.s.empty()) return row;
  const double top = *std::max_element(row.s.begin(), row.s.end());
  double sum = 0;
  for (const double s : row.s) sum += std::exp(s - top);
  row.lse = top + std::log(sum);
  for (std::size_t j = 0; j < row.s.size(); ++j) {
    row.p.push_back(std::exp(row.s[j] - row.lse));
    row.lse_error += row.p[j] * (row.s_error[j] + std::abs(row.s[j] - top) + 4);
  }
  row.lse_error +=
      static_cast<double>(row.s.size()) + std::log(sum) + std::abs(top) + std::abs(row.lse);
  return row;
}

template <class F>
void for_each_row(const Inputs& in, F f) {
  for (const SegmentEntry& segment : in.segments) {
    for (std::int64_t i = 0; i < segment[2]; ++i) {
      for (std::int64_t head = 0; head < in.at_q.heads; ++head) f(row_of(in, segment, i, head));
    }
  }
}

struct ForwardExpected {
  Expected o, lse;
};

ForwardExpected forward_expected(const Inputs& in, const AttentionCase& c) {
  ForwardExpected out{Expected(c.queries * c.heads * c.head_dim), Expected(c.queries * c.heads)};
  out.o.intermediate_error.resize(out.o.values.size());
  for_each_row(in, [&](const Row& row) {
    const auto at_lse = static_cast<std::size_t>(row.head * c.queries + row.token);
    out.lse.values[at_lse] = row.lse;
    out.lse.error[at_lse] = row.lse_error;
    for (std::size_t j = 0; j < row.p.size(); ++j) {
      const double relative =
          row.s_error[j] + row.lse_error + static_cast<double>(row.p.size()) + 8;
      const double* v =
          in.v.data() + in.at_k(row.k_begin + static_cast<std::int64_t>(j), row.kv_head);
      auto i = static_cast<std::size_t>(in.at_q(row.token, row.head));
      for (std::int64_t d = 0; d < c.head_dim; ++d, ++i) {
        const double term = row.p[j] * v[d];
        out.o.values[i] += term;
        out.o.error[i] += relative * std::abs(term);
        // P and its sum may both be taken from rounded numbers.
        out.o.intermediate_error[i] += 2 * std::abs(term);
      }
    }
  });
  return out;
}

struct BackwardExpected {
  Expected dq, dk, dv;
};

BackwardExpected backward_expected(const Inputs& in, const AttentionCase& c, const Values& o) {
  BackwardExpected out{Expected(c.queries * c.heads * c.head_dim),
                       Expected(c.keys * c.kv_heads * c.head_dim),
                       Expected(c.keys * c.kv_heads * c.head_dim)};
  for (Expected* e : {&out.dq, &out.dk, &out.dv}) e->intermediate_error.resize(e->values.size());
  // e[i : i + D] += weight * x, where weight has an error and each element gets `additions` terms.
  const auto add = [&](Expected& e, std::int64_t at, double weight, double weight_error,
                       const double* x, double additions) {
    const double error = weight_error + (additions + 2) * std::abs(weight);
    auto i = static_cast<std::size_t>(at);
    for (std::int64_t d = 0; d < c.head_dim; ++d, ++i) {
      e.values[i] += weight * x[d];
      e.error[i] += error * std::abs(x[d]);
      e.intermediate_error[i] += std::abs(weight * x[d]);
    }
  };
  const double width = static_cast<double>(c.head_dim);
  const double column = static_cast<double>(c.queries * in.group);
  for_each_row(in, [&](const Row& row) {
    const std::int64_t query = in.at_q(row.token, row.head);
    const double* q = in.q.data() + query;
    const double* d_o = in.d_o.data() + query;
    const Dot delta(d_o, o.data() + query, c.head_dim);
    for (std::size_t j = 0; j < row.p.size(); ++j) {
      const std::int64_t key = in.at_k(row.k_begin + static_cast<std::int64_t>(j), row.kv_head);
      const Dot d_p(d_o, in.v.data() + key, c.head_dim);
      const double p = row.p[j];
      const double p_error = p * (row.s_error[j] + std::abs(row.s[j]) + 2 * std::abs(row.lse) + 6);
      const double d_s = p * (d_p.sum - delta.sum) * row.slope[j] * in.scale;
      const double d_s_error =
          in.scale * (row.slope[j] * (p_error * std::abs(d_p.sum - delta.sum) +
                                      p * (width + 3) * (d_p.magnitude + delta.magnitude)) +
                      row.slope_error[j] * p * std::abs(d_p.sum - delta.sum));
      add(out.dq, query, d_s, d_s_error, in.k.data() + key, static_cast<double>(row.p.size()));
      add(out.dk, key, d_s, d_s_error, q, column);
      add(out.dv, key, p, p_error, d_o, column);
    }
  });
  return out;
}

/// Turns rows of `heads` heads back. The values were rounded before that, by `rounding` in units of
/// A's roundoff.
void turn_back(Expected& e, const Inputs& in, std::int64_t heads, double rounding) {
  const auto half = static_cast<std::size_t>(in.at_q.width / 2);
  for (std::size_t row = 0; row < in.positions.size() * static_cast<std::size_t>(heads); ++row) {
    const auto position =
        static_cast<std::size_t>(in.positions[row / static_cast<std::size_t>(heads)]);
    for (std::size_t i = 0; i < half; ++i) {
      const std::size_t low = row * 2 * half + i;
      const std::size_t high = low + half;
      const double c = in.cos[position * half + i];
      const double s = in.sin[position * half + i];
      const auto turn = [&](Values& x, double cosine, double sine, double sign) {
        const double a = x[low];
        const double b = x[high];
        x[low] = a * cosine + b * sine;
        x[high] = b * cosine + sign * a * sine;
      };
      const double of_low = std::abs(e.values[low] * c) + std::abs(e.values[high] * s);
      const double of_high = std::abs(e.values[high] * c) + std::abs(e.values[low] * s);
      turn(e.values, c, s, -1);
      turn(e.error, std::abs(c), std::abs(s), 1);
      turn(e.intermediate_error, std::abs(c), std::abs(s), 1);
      e.error[low] += (2 + rounding) * of_low;
      e.error[high] += (2 + rounding) * of_high;
    }
  }
}

/// q, k and v, or dq, dk and dv: three tensors, or the columns of one.
struct Qkv {
  TensorView q, k, v;
};

Qkv split_columns(const TensorView& all, const AttentionCase& c) {
  const std::int64_t q_width = c.heads * c.head_dim;
  const std::int64_t k_width = c.kv_heads * c.head_dim;
  return {heads_of(all, 0, c.heads, c.head_dim), heads_of(all, q_width, c.kv_heads, c.head_dim),
          heads_of(all, q_width + k_width, c.kv_heads, c.head_dim)};
}

Qkv upload_qkv(OpRunner& runner, const Inputs& in, const AttentionCase& c, DType dtype) {
  const Shape q_shape{c.queries, c.heads, c.head_dim};
  const Shape k_shape{c.keys, c.kv_heads, c.head_dim};
  if (!c.packed) {
    return {runner.upload(in.q, dtype, q_shape), runner.upload(in.k, dtype, k_shape),
            runner.upload(in.v, dtype, k_shape)};
  }
  Values rows;
  for (std::int64_t n = 0; n < c.queries; ++n) {
    for (const auto& [values, heads] :
         {std::pair{&in.q, c.heads}, std::pair{&in.k, c.kv_heads}, std::pair{&in.v, c.kv_heads}}) {
      const std::int64_t width = heads * c.head_dim;
      rows.insert(rows.end(), values->begin() + n * width, values->begin() + (n + 1) * width);
    }
  }
  const std::int64_t width = (c.heads + 2 * c.kv_heads) * c.head_dim;
  return split_columns(runner.upload(rows, dtype, {c.queries, width}), c);
}

Qkv output_qkv(OpRunner& runner, const AttentionCase& c, DType dtype) {
  const Shape k_shape{c.keys, c.kv_heads, c.head_dim};
  if (!c.packed) {
    return {runner.output(dtype, {c.queries, c.heads, c.head_dim}), runner.output(dtype, k_shape),
            runner.output(dtype, k_shape)};
  }
  const std::int64_t width = (c.heads + 2 * c.kv_heads) * c.head_dim;
  return split_columns(runner.output(dtype, {c.queries, width}), c);
}

/// Whether the segments keep AttentionSegments::self_attention.
bool attends_to_itself(const AttentionCase& c) {
  if (c.uniform_length > 0) return true;
  std::int64_t row = 0;
  for (const auto& [q_begin, k_begin, q_length, k_length, q_offset] : c.segments) {
    if (q_length == 0) continue;
    if (q_begin != row || k_begin != row || k_length != q_length || q_offset != 0) return false;
    row += q_length;
  }
  return row == c.queries && row == c.keys;
}

AttentionSegments upload_segments(OpRunner& runner, const AttentionCase& c) {
  Values entries;
  for (const SegmentEntry& s : c.segments) entries.insert(entries.end(), s.begin(), s.end());
  const auto count = static_cast<std::int64_t>(c.segments.size());
  AttentionSegments segments;
  segments.uniform_length = c.uniform_length;
  if (c.uniform_length == 0) segments.table = runner.upload(entries, DType::kI32, {count, 5});
  segments.self_attention = attends_to_itself(c);
  return segments;
}

RopeAngles upload_rotation(OpRunner& runner, const Inputs& in, const AttentionCase& c,
                           DType accumulator) {
  if (!c.turned) return {};
  const Shape table{Inputs::kPositions, c.head_dim / 2};
  return {.positions = runner.upload(in.positions, DType::kI32, {c.queries}),
          .cos = runner.upload(in.cos, accumulator, table),
          .sin = runner.upload(in.sin, accumulator, table)};
}

}  // namespace

AttentionCase causal_case(std::int64_t rows, std::int64_t length, std::int64_t heads,
                          std::int64_t kv_heads, std::int64_t head_dim) {
  return {.name = std::to_string(rows) + " rows of " + std::to_string(length),
          .queries = rows * length,
          .keys = rows * length,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .segments = {},
          .uniform_length = length};
}

/// More documents than a warp has lanes, most of them short, and one of `period` longer than a
/// tile.
AttentionCase many_documents(std::int64_t head_dim, int count, int period) {
  AttentionCase c{.name = "many packed documents",
                  .queries = 0,
                  .keys = 0,
                  .heads = 2,
                  .kv_heads = 1,
                  .head_dim = head_dim,
                  .segments = {}};
  for (int i = 0; i < count; ++i) {
    const auto begin = static_cast<std::int32_t>(c.queries);
    const std::int32_t length = i % period == 5 ? 150 + i % 70 : 1 + i % 4;
    c.segments.push_back({begin, begin, length, length, 0});
    c.queries += length;
  }
  for (int i = 0; i < 40; ++i) c.segments.push_back({0, 0, 0, 0, 0});
  c.keys = c.queries;
  return c;
}

namespace {

AttentionCase with_scores(AttentionCase c, std::int64_t window, double score_cap) {
  c.window = window;
  c.score_cap = score_cap;
  c.name += ", window " + std::to_string(window) + ", cap " + std::to_string(score_cap);
  return c;
}

/// Windows of one key and of a row, and those that end inside tiles, at their borders and beside
/// them; with documents, ranges with a past, and keys that a window leaves to nobody. And caps that
/// bend scores.
std::vector<AttentionCase> scored_cases(const HeadDims& head_dims) {
  std::vector<AttentionCase> cases;
  for (const std::int64_t head_dim : {12, 64, 128, 256}) {
    cases.push_back(with_scores(causal_case(1, 75, 2, 1, head_dim), 1, 0));
    cases.push_back(with_scores(causal_case(2, 100, 4, 2, head_dim), 33, 1.5));
    cases.push_back(with_scores(causal_case(1, 150, 2, 1, head_dim), 0, 0.75));
  }
  for (const std::int64_t head_dim : head_dims) {
    for (const std::int64_t window : {2, 47, 64, 65, 128, 129, 1000}) {
      if (head_dim == 12 && window > 47) continue;
      cases.push_back(with_scores(causal_case(1, 201, 2, 1, head_dim), window, 0));
    }
    AttentionCase packed = causal_case(2, 77, 4, 2, head_dim);
    packed.packed = packed.turned = true;
    cases.push_back(with_scores(packed, 50, 0));
    cases.push_back(with_scores(packed, 0, 1.5));
    cases.push_back(with_scores(many_documents(head_dim, 70, 23), 3, 0));
    if (head_dim == head_dims.at(1)) {
      cases.push_back(with_scores(many_documents(head_dim, 70, 23), 100, 1.5));
    }
    const AttentionCase range{.name = "a range of a row behind its past",
                              .queries = 110,
                              .keys = 340,
                              .heads = 2,
                              .kv_heads = 1,
                              .head_dim = head_dim,
                              .segments = {{0, 35, 70, 285, 215}, {70, 320, 40, 20, 12}}};
    for (const std::int64_t window : {1, 20, 130}) cases.push_back(with_scores(range, window, 0));
    cases.push_back(with_scores(range, 130, 1.5));
  }
  return cases;
}

}  // namespace

std::vector<AttentionCase> attention_cases(const HeadDims& head_dims) {
  std::vector<AttentionCase> cases{causal_case(1, 1, 1, 1, 1),    causal_case(2, 7, 2, 1, 5),
                                   causal_case(0, 4, 2, 2, 64),   causal_case(1, 65, 4, 2, 64),
                                   causal_case(2, 63, 2, 2, 64),  causal_case(1, 129, 2, 1, 128),
                                   causal_case(1, 130, 4, 1, 64), causal_case(1, 33, 2, 2, 256)};
  for (const std::int64_t head_dim : head_dims) {
    AttentionCase c = causal_case(2, 37, 4, 2, head_dim);
    c.name = "columns of a packed tensor";
    c.packed = true;
    cases.push_back(c);
    c.name = "columns of a packed tensor, turned back";
    c.turned = true;
    cases.push_back(c);
    cases.push_back(
        {.name = "packed documents with unused entries",
         .queries = 100,
         .keys = 100,
         .heads = 4,
         .kv_heads = 2,
         .head_dim = head_dim,
         .segments = {{0, 0, 33, 33, 0}, {33, 33, 1, 1, 0}, {34, 34, 66, 66, 0}, {0, 0, 0, 0, 0}}});
    cases.push_back(many_documents(head_dim, 70, 23));
    cases.push_back(many_documents(head_dim, 70, 23));
    cases.back().name = "many packed documents, turned back";
    cases.back().turned = true;
    cases.push_back({.name = "a range of a row behind its past, and keys that nobody sees",
                     .queries = 20,
                     .keys = 160,
                     .heads = 2,
                     .kv_heads = 1,
                     .head_dim = head_dim,
                     .segments = {{0, 35, 20, 90, 70}}});
    cases.push_back({.name = "two ranges of queries that share keys, fewer keys than queries",
                     .queries = 48,
                     .keys = 30,
                     .heads = 2,
                     .kv_heads = 2,
                     .head_dim = head_dim,
                     .segments = {{0, 0, 40, 30, 0}, {40, 2, 8, 20, 12}}});
  }
  cases.push_back(many_documents(64, 1100, 500));
  for (const AttentionCase& c : scored_cases(head_dims)) cases.push_back(c);
  return cases;
}

std::vector<AttentionCase> decode_cases(const HeadDims& head_dims) {
  std::vector<AttentionCase> cases;
  for (const std::int64_t head_dim : head_dims) {
    cases.push_back({.name = "single queries over a cache",
                     .queries = 6,
                     .keys = 1700,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_dim = head_dim,
                     .segments = {{0, 3, 1, 1, 0},
                                  {1, 10, 1, 255, 254},
                                  {2, 265, 1, 256, 255},
                                  {3, 521, 1, 257, 256},
                                  {4, 800, 1, 880, 879},
                                  {5, 40, 1, 100, 50}},
                     .parts = 4});
    cases.push_back({.name = "single queries with all their keys in one part",
                     .queries = 3,
                     .keys = 500,
                     .heads = 3,
                     .kv_heads = 3,
                     .head_dim = head_dim,
                     .segments = {{0, 0, 1, 17, 16}, {1, 17, 1, 200, 199}, {2, 244, 1, 256, 255}},
                     .parts = 1});
    cases.push_back({.name = "more query heads of a kv head than a tile has",
                     .queries = 2,
                     .keys = 700,
                     .heads = 40,
                     .kv_heads = 2,
                     .head_dim = head_dim,
                     .segments = {{0, 0, 1, 300, 299}, {1, 300, 1, 33, 32}},
                     .parts = 3});
    const AttentionCase many = cases[cases.size() - 3];
    for (const std::int64_t window : {1, 17, 255, 256, 257, 5000}) {
      cases.push_back(with_scores(many, window, 0));
    }
    cases.push_back(with_scores(many, 0, 1.5));
    cases.push_back(with_scores(many, 300, 1.5));
    AttentionCase few = many;
    few.parts = 2;  // as many as a window of 300 needs
    cases.push_back(with_scores(few, 300, 0));
  }
  return cases;
}

namespace {

/// Returns the scratch for the parts of keys, if the case has any.
TensorView upload_parts(OpRunner& runner, const AttentionCase& c, DType accumulator) {
  if (c.parts == 0) return {};
  return runner.output(accumulator, {c.queries, c.parts, c.heads * (c.head_dim + 2)});
}

}  // namespace

Outputs check_attention_forward(OpRunner& runner, DType dtype, const AttentionCase& c,
                                DType intermediate) {
  runner.reset();
  INFO("attention forward, " << c.name << ", head dim " << c.head_dim);
  const DType accumulator = accumulator_of(dtype);
  const Inputs in(c, dtype);
  const ForwardExpected expected = forward_expected(in, c);
  const Qkv inputs = upload_qkv(runner, in, c, dtype);
  const AttentionForward op{.q = inputs.q,
                            .k = inputs.k,
                            .v = inputs.v,
                            .segments = upload_segments(runner, c),
                            .o = runner.output(dtype, {c.queries, c.heads, c.head_dim}),
                            .lse = runner.output(accumulator, {c.heads, c.queries}),
                            .parts = upload_parts(runner, c, accumulator),
                            .scale = in.scale,
                            .window = c.window,
                            .score_cap = c.score_cap};
  runner.run(op);
  const Outputs got{runner.download(op.o), runner.download(op.lse)};
  require_close("o", got[0], expected.o, dtype, accumulator, intermediate);
  require_close("lse", got[1], expected.lse, accumulator, accumulator);
  REQUIRE(runner.guards_intact());
  return got;
}

std::vector<AttentionCase> fused_attend_cases(const HeadDims& head_dims) {
  std::vector<AttentionCase> cases = decode_cases(head_dims);
  for (AttentionCase& c : cases) {
    if (c.queries == 6) c.segments.back() = {5, 1680, 1, 20, 9};
  }
  for (const int parts : {2, 5, 8, 36}) {
    const int keys = parts * static_cast<int>(AttentionForward::kPartKeys) - 7;
    cases.push_back({.name = std::to_string(parts) + " parts beside one key alone",
                     .queries = 2,
                     .keys = keys + 3,
                     .heads = 8,
                     .kv_heads = 2,
                     .head_dim = 128,
                     .segments = {{0, 2, 1, 1, 0}, {1, 3, 1, keys, keys - 1}},
                     .parts = parts});
  }
  return cases;
}

Outputs check_fused_attend(OpRunner& runner, DType dtype, const AttentionCase& c) {
  INFO("fused attention, " << c.name << ", head dim " << c.head_dim);
  const DType a = accumulator_of(dtype);
  const std::int64_t turned = c.heads + c.kv_heads;
  const std::int64_t width = (turned + c.kv_heads) * c.head_dim;
  constexpr std::int64_t kPositions = 37;
  const Shape table{kPositions, c.head_dim / 2};
  const Shape cached{c.keys, c.kv_heads, c.head_dim};
  const auto qkv = random_values(21, c.queries * width, dtype);
  const auto cos = random_values(22, table.elements(), a);
  const auto sin = random_values(23, table.elements(), a);
  const auto positions = random_integers(24, c.queries, kPositions);
  const auto old_k = random_values(25, cached.elements(), dtype);
  const auto old_v = random_values(26, cached.elements(), dtype);
  Values last;  // rows
  for (const SegmentEntry& s : c.segments) last.push_back(s[1] + std::min(s[3], s[4] + 1) - 1);
  const auto run = [&](bool fused) {
    runner.reset();
    const TensorView all = runner.upload(qkv, dtype, {c.queries, width});
    const auto heads = [&](std::int64_t begin, std::int64_t count) {
      return heads_of(all, begin * c.head_dim, count, c.head_dim);
    };
    const FusedAttend op{
        .added = {.rope = {.x = heads(0, turned),
                           .positions = runner.upload(positions, DType::kI32, {c.queries}),
                           .cos = runner.upload(cos, a, table),
                           .sin = runner.upload(sin, a, table)},
                  .append = {.k = heads(c.heads, c.kv_heads),
                             .v = heads(turned, c.kv_heads),
                             .rows = runner.upload(last, DType::kI32, {c.queries}),
                             .cache_k = runner.upload(old_k, dtype, cached),
                             .cache_v = runner.upload(old_v, dtype, cached)}},
        .segments = upload_segments(runner, c).table,
        .o = runner.output(dtype, {c.queries, c.heads, c.head_dim}),
        .lse = runner.output(a, {c.heads, c.queries}),
        .parts = upload_parts(runner, c, a),
        .scale = 1 / std::sqrt(static_cast<double>(c.head_dim)),
        .window = c.window,
        .score_cap = c.score_cap};
    if (fused) {
      runner.run(op);
    } else {
      runner.run(op.added);
      runner.run(op.attention());
    }
    const Outputs got{runner.download(op.o), runner.download(op.lse),
                      runner.download(op.added.append.cache_k),
                      runner.download(op.added.append.cache_v)};
    REQUIRE(runner.guards_intact());
    return got;
  };
  const Outputs got = run(true);
  const Outputs alone = run(false);  // whose formulas the checks of the parts have
  require_equal("o", got[0], alone[0]);
  require_equal("lse", got[1], alone[1]);
  require_equal("cache_k", got[2], alone[2]);
  require_equal("cache_v", got[3], alone[3]);
  return got;
}

Outputs check_attend_int8_kv(OpRunner& runner, DType dtype, const AttentionCase& c,
                             DType intermediate) {
  runner.reset();
  INFO("attention to int8, " << c.name << ", head dim " << c.head_dim);
  const DType accumulator = accumulator_of(dtype);
  Inputs in(c, dtype);
  const std::int64_t rows = c.keys * c.kv_heads;
  const auto drawn = [&](std::uint64_t stream, Values& levels, Values& scales) {
    levels = random_integers(stream, rows * c.head_dim, 255);
    for (double& level : levels) level -= 127;
    scales = random_integers(stream + 1, rows, 40);
    for (double& scale : scales) scale = rounded_to(DType::kF32, scale / 1000.0);
    Values product(levels.size());
    for (std::size_t i = 0; i < levels.size(); ++i) {
      product[i] = levels[i] * scales[i / static_cast<std::size_t>(c.head_dim)];
    }
    return product;
  };
  Values k, k_scale, v, v_scale;
  in.k = drawn(7, k, k_scale);
  in.v = drawn(9, v, v_scale);
  const ForwardExpected expected = forward_expected(in, c);
  // Rows as a store has them: both and their scales, in strides of 16 bytes.
  const std::int64_t stride = (2 * c.kv_heads * (c.head_dim + 4) + 15) / 16 * 16;
  const Shape levels{c.keys, c.kv_heads, c.head_dim};
  const Shape scales{c.keys, c.kv_heads};
  const AttendInt8Kv op{
      .q = runner.upload(in.q, dtype, {c.queries, c.heads, c.head_dim}),
      .cache = {.k = runner.upload(k, DType::kI8, levels, stride),
                .v = runner.upload(v, DType::kI8, levels, stride),
                .k_scale = runner.upload(k_scale, DType::kF32, scales, stride / 4),
                .v_scale = runner.upload(v_scale, DType::kF32, scales, stride / 4)},
      .segments = upload_segments(runner, c).table,
      .o = runner.output(dtype, {c.queries, c.heads, c.head_dim}),
      .parts = upload_parts(runner, c, accumulator),
      .scale = in.scale,
      .window = c.window,
      .score_cap = c.score_cap};
  runner.run(op);
  const Outputs got{runner.download(op.o)};
  require_close("o", got[0], expected.o, dtype, accumulator, intermediate);
  REQUIRE(runner.guards_intact());
  return got;
}

Outputs check_attention_backward(OpRunner& runner, DType dtype, const AttentionCase& c,
                                 const AttentionRounding& rounding, bool adds_dq) {
  runner.reset();
  INFO("attention backward, " << c.name << ", head dim " << c.head_dim);
  const DType accumulator = accumulator_of(dtype);
  const Inputs in(c, dtype);
  ForwardExpected forward = forward_expected(in, c);
  for (double& x : forward.o.values) x = rounded_to(dtype, x);
  for (double& x : forward.lse.values) x = rounded_to(accumulator, x);
  BackwardExpected expected = backward_expected(in, c, forward.o.values);
  if (c.turned) {
    const double units = unit_roundoff(rounding.unturned) / unit_roundoff(accumulator);
    turn_back(expected.dq, in, c.heads, units);
    turn_back(expected.dk, in, c.kv_heads, units);
  }
  const Shape shape{c.queries, c.heads, c.head_dim};
  const Qkv inputs = upload_qkv(runner, in, c, dtype);
  const Qkv outputs = output_qkv(runner, c, dtype);
  runner.run(
      AttentionBackward{.d_o = runner.upload(in.d_o, dtype, shape),
                        .q = inputs.q,
                        .k = inputs.k,
                        .v = inputs.v,
                        .o = runner.upload(forward.o.values, dtype, shape),
                        .lse = runner.upload(forward.lse.values, accumulator, {c.heads, c.queries}),
                        .segments = upload_segments(runner, c),
                        .dq = outputs.q,
                        .dk = outputs.k,
                        .dv = outputs.v,
                        .delta = runner.output(accumulator, {c.heads, c.queries}),
                        .dq_sum = adds_dq ? runner.output(accumulator, shape) : TensorView(),
                        .rotation = upload_rotation(runner, in, c, accumulator),
                        .scale = in.scale,
                        .window = c.window,
                        .score_cap = c.score_cap});
  const Outputs got{runner.download(outputs.q), runner.download(outputs.k),
                    runner.download(outputs.v)};
  require_close("dq", got[0], expected.dq, dtype, accumulator, rounding.intermediate);
  require_close("dk", got[1], expected.dk, dtype, accumulator, rounding.intermediate);
  require_close("dv", got[2], expected.dv, dtype, accumulator, rounding.intermediate);
  REQUIRE(runner.guards_intact());
  return got;
}

}  // namespace strata::test
