// Computes attention row by row: the scores of one query, their probabilities, and what errors of
// either become in the outputs.

#include "op_checks/attention_reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace strata {

namespace {

using Values = std::vector<double>;

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

Row row_of(const AttentionInputs& in, const SegmentEntry& segment, std::int64_t i,
           std::int64_t head) {
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
void for_each_row(const AttentionInputs& in, F f) {
  for (const SegmentEntry& segment : in.segments) {
    for (std::int64_t i = 0; i < segment[2]; ++i) {
      for (std::int64_t head = 0; head < in.at_q.heads; ++head) f(row_of(in, segment, i, head));
    }
  }
}

}  // namespace

AttentionInputs::AttentionInputs(const AttentionCase& c, DType dtype)
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

AttentionForwardExpected forward_expected(const AttentionInputs& in, const AttentionCase& c) {
  AttentionForwardExpected out{Expected(c.queries * c.heads * c.head_dim),
                               Expected(c.queries * c.heads)};
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

AttentionBackwardExpected backward_expected(const AttentionInputs& in, const AttentionCase& c,
                                            const Values& o) {
  AttentionBackwardExpected out{Expected(c.queries * c.heads * c.head_dim),
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

void turn_back(Expected& e, const AttentionInputs& in, std::int64_t heads, double rounding) {
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

}  // namespace strata
