#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "strata/base/dtype.h"
#include "strata/base/random.h"

/// Attention as its definition reads, in f64 and without any tiling: what GPU kernels are compared
/// with.
namespace strata::test {

/// q_begin, k_begin, q_length, k_length, q_offset: see AttentionSegments.
using SegmentEntry = std::array<std::int32_t, 5>;

struct AttentionProblem {
  std::int64_t query_rows = 0;
  std::int64_t key_rows = 0;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 64;
  double scale = 1.0;
  std::vector<SegmentEntry> segments;
  std::vector<float> q, d_o;  ///< [query_rows, heads, head_dim]
  std::vector<float> k, v;    ///< [key_rows, kv_heads, head_dim]
};

struct AttentionOutput {
  std::vector<double> o;    ///< [query_rows, heads, head_dim]
  std::vector<double> lse;  ///< [heads, query_rows]
};

struct AttentionGradients {
  std::vector<double> dq;      ///< [query_rows, heads, head_dim]
  std::vector<double> dk, dv;  ///< [key_rows, kv_heads, head_dim]
};

/// How intermediate and final values are rounded: not at all (exact), or to bf16 wherever a bf16
/// implementation must (probabilities, score gradients, results). The distance of the two is the
/// error that a faultless bf16 implementation has.
using Rounding = double (*)(double);
inline double exact(double x) { return x; }
inline double through_bf16(double x) { return static_cast<double>(Bf16(static_cast<float>(x))); }

inline std::vector<float> random_bf16_values(std::int64_t count, std::uint64_t stream,
                                             double deviation) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = Bf16(static_cast<float>(deviation * random_normal(7, stream, i)));
  }
  return values;
}

/// Fills q, k, v and d_o with values that bf16 holds. Scores spread enough for peaked rows.
inline void draw_inputs(AttentionProblem& p, std::uint64_t seed) {
  const std::int64_t of_queries = p.query_rows * p.heads * p.head_dim;
  const std::int64_t of_keys = p.key_rows * p.kv_heads * p.head_dim;
  p.q = random_bf16_values(of_queries, 4 * seed, 1.5);
  p.k = random_bf16_values(of_keys, 4 * seed + 1, 1.0);
  p.v = random_bf16_values(of_keys, 4 * seed + 2, 1.0);
  p.d_o = random_bf16_values(of_queries, 4 * seed + 3, 1.0);
}

inline double dot(const float* a, const float* b, std::int64_t n) {
  std::array<double, 8> sums{};
  for (std::int64_t i = 0; i < n; ++i) {
    sums[static_cast<std::size_t>(i % 8)] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  double sum = 0;
  for (const double s : sums) sum += s;
  return sum;
}

inline void add_scaled(double* to, double factor, const float* from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += factor * static_cast<double>(from[i]);
}

/// Calls body(head, query row, first visible key row, number of visible keys) for every query of
/// every segment.
template <class Body>
void for_each_query(const AttentionProblem& p, const Body& body) {
  for (const auto& [q_begin, k_begin, q_length, k_length, q_offset] : p.segments) {
    for (std::int64_t head = 0; head < p.heads; ++head) {
      for (std::int64_t i = 0; i < q_length; ++i) {
        const std::int64_t keys = std::clamp<std::int64_t>(i + q_offset + 1, 0, k_length);
        body(head, q_begin + i, std::int64_t{k_begin}, keys);
      }
    }
  }
}

inline AttentionOutput naive_attention(const AttentionProblem& p, Rounding round) {
  const std::int64_t d = p.head_dim;
  AttentionOutput out;
  out.o.assign(p.q.size(), 0.0);
  out.lse.assign(static_cast<std::size_t>(p.heads * p.query_rows), 0.0);
  std::vector<double> scores;
  for_each_query(p, [&](std::int64_t head, std::int64_t row, std::int64_t k_begin,
                        std::int64_t keys) {
    const std::int64_t kv_head = head / (p.heads / p.kv_heads);
    const float* q = &p.q[static_cast<std::size_t>((row * p.heads + head) * d)];
    double* o = &out.o[static_cast<std::size_t>((row * p.heads + head) * d)];
    double& lse = out.lse[static_cast<std::size_t>(head * p.query_rows + row)];
    scores.resize(static_cast<std::size_t>(keys));
    double maximum = -std::numeric_limits<double>::infinity();
    for (std::int64_t j = 0; j < keys; ++j) {
      const auto at = static_cast<std::size_t>(((k_begin + j) * p.kv_heads + kv_head) * d);
      double& score = scores[static_cast<std::size_t>(j)];
      score = p.scale * dot(q, &p.k[at], d);
      maximum = std::max(maximum, score);
    }
    double sum = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      const auto at = static_cast<std::size_t>(((k_begin + j) * p.kv_heads + kv_head) * d);
      const double weight = std::exp(scores[static_cast<std::size_t>(j)] - maximum);
      sum += weight;
      add_scaled(o, round(weight), &p.v[at], d);
    }
    for (std::int64_t i = 0; i < d && keys > 0; ++i) o[i] = round(o[i] / sum);
    lse = maximum + std::log(sum);
  });
  return out;
}

/// From o (values that the operator is given) and lse.
inline AttentionGradients naive_attention_gradients(const AttentionProblem& p,
                                                    const std::vector<float>& o,
                                                    const std::vector<double>& lse,
                                                    Rounding round) {
  const std::int64_t d = p.head_dim;
  AttentionGradients out;
  out.dq.assign(p.q.size(), 0.0);
  out.dk.assign(p.k.size(), 0.0);
  out.dv.assign(p.v.size(), 0.0);
  for_each_query(p, [&](std::int64_t head, std::int64_t row, std::int64_t k_begin,
                        std::int64_t keys) {
    const std::int64_t kv_head = head / (p.heads / p.kv_heads);
    const auto at_query = static_cast<std::size_t>((row * p.heads + head) * d);
    const double delta = dot(&p.d_o[at_query], &o[at_query], d);
    const double row_lse = lse[static_cast<std::size_t>(head * p.query_rows + row)];
    for (std::int64_t j = 0; j < keys; ++j) {
      const auto at = static_cast<std::size_t>(((k_begin + j) * p.kv_heads + kv_head) * d);
      const double weight = std::exp(p.scale * dot(&p.q[at_query], &p.k[at], d) - row_lse);
      const double d_score = round(weight * (dot(&p.d_o[at_query], &p.v[at], d) - delta));
      add_scaled(&out.dv[at], round(weight), &p.d_o[at_query], d);
      add_scaled(&out.dk[at], p.scale * d_score, &p.q[at_query], d);
      add_scaled(&out.dq[at_query], p.scale * d_score, &p.k[at], d);
    }
  });
  for (auto* tensor : {&out.dq, &out.dk, &out.dv}) {
    for (double& x : *tensor) x = round(x);
  }
  return out;
}

/// ||a - b||, and ||b||.
struct Distance {
  double difference = 0;
  double norm = 0;
};

template <class A>
Distance distance(const std::vector<A>& a, const std::vector<double>& b) {
  Distance out;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double x = static_cast<double>(a[i]) - b[i];
    out.difference += x * x;
    out.norm += b[i] * b[i];
  }
  out.difference = std::sqrt(out.difference);
  out.norm = std::sqrt(out.norm);
  return out;
}

}  // namespace strata::test
