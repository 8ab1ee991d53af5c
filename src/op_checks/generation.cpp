// Checks of the operators of generation: the cache of keys and values, compared element by element,
// and drawing tokens, compared with a distribution that is made token by token in f64.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "op_checks/texts.h"
#include "strata/base/random.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"
#include "strata/ops/heads.h"

namespace strata {

Outputs check_append_kv(OpRunner& runner, DType dtype, const RopeCase& c) {
  runner.reset(text_of(dtype, c));
  const std::int64_t rows = 2 * c.tokens + 3;
  const Shape added{c.tokens, c.heads, c.head_dim};
  const Shape cached{rows, c.heads, c.head_dim};
  const auto width = static_cast<std::size_t>(c.heads * c.head_dim);
  const auto k = random_values(1, added.elements(), dtype);
  const auto v = random_values(2, added.elements(), dtype);
  std::array<std::vector<double>, 2> expected{random_values(3, cached.elements(), dtype),
                                              random_values(4, cached.elements(), dtype)};
  const auto stride = static_cast<std::int64_t>(width) + c.gap;
  AppendKv op{.k = runner.upload(k, dtype, added, stride),
              .v = runner.upload(v, dtype, added, stride),
              .rows = {},
              .cache_k = runner.upload(expected[0], dtype, cached, 2 * stride),
              .cache_v = runner.upload(expected[1], dtype, cached, stride)};
  std::vector<double> places;  // every second row, from the last one down
  for (std::int64_t n = 0; n < c.tokens; ++n)
    places.push_back(static_cast<double>(rows - 1 - 2 * n));
  op.rows = runner.upload(places, DType::kI32, {c.tokens});
  runner.run(op);
  for (std::size_t n = 0; n < places.size(); ++n) {
    const auto to = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(places[n]) * width);
    const auto from = static_cast<std::ptrdiff_t>(n * width);
    std::copy_n(k.begin() + from, width, expected[0].begin() + to);
    std::copy_n(v.begin() + from, width, expected[1].begin() + to);
  }
  runner.require_equal("cache_k", op.cache_k, expected[0]);
  runner.require_equal("cache_v", op.cache_v, expected[1]);
  return runner.outputs();
}

Outputs check_fused_append(OpRunner& runner, DType dtype, const RopeCase& c) {
  const std::int64_t kv_heads = (c.heads + 1) / 2;
  const std::int64_t turned = c.heads + kv_heads;
  const std::int64_t rows = 2 * c.tokens + 3;
  const std::int64_t positions = c.tokens + 5;
  const DType a = accumulator_of(dtype);
  const Shape table{positions, c.head_dim / 2};
  const Shape cached{rows, kv_heads, c.head_dim};
  const std::int64_t width = (turned + kv_heads) * c.head_dim;
  const auto qkv = random_values(1, c.tokens * width, dtype);
  const auto cos = random_values(2, table.elements(), a);
  const auto sin = random_values(3, table.elements(), a);
  const auto place = random_integers(4, c.tokens, positions);
  const auto old_k = random_values(5, cached.elements(), dtype);
  const auto old_v = random_values(6, cached.elements(), dtype);
  std::vector<double> to;  // every second row, from the last one down
  for (std::int64_t n = 0; n < c.tokens; ++n) to.push_back(static_cast<double>(rows - 1 - 2 * n));
  const auto run = [&](bool fused) {
    runner.reset(text_of(dtype, c));
    const std::int64_t stride = width + c.gap;
    const TensorView all = runner.upload(qkv, dtype, {c.tokens, width}, stride);
    const auto heads = [&](std::int64_t begin, std::int64_t count) {
      return heads_of(all, begin * c.head_dim, count, c.head_dim);
    };
    const FusedAppend op{
        .rope = {.x = heads(0, turned),
                 .positions = runner.upload(place, DType::kI32, {c.tokens}),
                 .cos = runner.upload(cos, a, table),
                 .sin = runner.upload(sin, a, table)},
        .append = {
            .k = heads(c.heads, kv_heads),
            .v = heads(turned, kv_heads),
            .rows = runner.upload(to, DType::kI32, {c.tokens}),
            .cache_k = runner.upload(old_k, dtype, cached, 2 * kv_heads * c.head_dim + c.gap),
            .cache_v = runner.upload(old_v, dtype, cached, kv_heads * c.head_dim + c.gap)}};
    if (fused) {
      runner.run(op);
    } else {
      runner.run(op.rope);
      runner.run(op.append);
    }
    const Outputs got{runner.download(all), runner.download(op.append.cache_k),
                      runner.download(op.append.cache_v)};
    return got;
  };
  const Outputs alone = run(false);  // whose formulas check_rope and check_append_kv have
  const Outputs got = run(true);
  runner.require_equal("queries, keys and values", got[0], alone[0]);
  runner.require_equal("cache_k", got[1], alone[1]);
  runner.require_equal("cache_v", got[2], alone[2]);
  return got;
}

namespace {

/// Returns the probability of each token, by the formula of SampleTokens; a share of 1 for the
/// likeliest at temperature 0.
std::vector<double> distribution(std::vector<double> logits, const SamplingRow& row,
                                 const std::vector<std::int32_t>& seen) {
  for (const std::int32_t id : seen) {
    double& logit = logits[static_cast<std::size_t>(id)];
    logit = logit > 0 ? logit / row.repeat_penalty : logit * row.repeat_penalty;
  }
  const std::size_t count = logits.size();
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  std::vector<double> share(count, 0.0);
  if (row.temperature == 0) {
    share[order[0]] = 1;
    return share;
  }
  const double top = logits[order[0]];
  const auto weight = [&](std::size_t token) {
    return std::exp((logits[token] - top) / row.temperature);
  };
  std::size_t kept = count;
  if (row.top_k > 0 && static_cast<std::size_t>(row.top_k) < count) {
    kept = static_cast<std::size_t>(row.top_k);
    while (kept < count && logits[order[kept]] == logits[order[kept - 1]]) ++kept;
  }
  double all = 0;
  for (std::size_t i = 0; i < kept; ++i) all += weight(order[i]);
  double gathered = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    if (i > 0 && row.top_p < 1 && gathered >= row.top_p * all) break;
    gathered += weight(order[i]);
    if (weight(order[i]) >= row.min_p) share[order[i]] = weight(order[i]);
  }
  const double sum = std::accumulate(share.begin(), share.end(), 0.0);
  for (double& s : share) s /= sum;
  return share;
}

}  // namespace

Outputs check_sample_tokens(OpRunner& runner, DType dtype, const RowsCase& c) {
  runner.reset(text_of(dtype, c));
  const std::int64_t vocabulary = c.width;
  const auto logits = random_values(1, c.tokens * vocabulary, dtype);
  std::vector<SamplingRow> rows;
  std::vector<std::int32_t> seen;
  for (std::int64_t n = 0; n < c.tokens; ++n) {
    SamplingRow row{.temperature = n % 4 == 0 ? 0 : 0.5 + 0.25 * static_cast<double>(n % 3),
                    .top_p = n % 3 == 1 ? 0.7 : 1,
                    .min_p = n % 5 == 2 ? 0.1 : 0,
                    .repeat_penalty = n % 2 == 1 ? 1.25 : 1,
                    .uniform = random_uniform(4, 0, static_cast<std::uint64_t>(n)),
                    .top_k = n % 3 == 2 ? 7 : 0,
                    .seen_begin = static_cast<std::int32_t>(seen.size())};
    for (std::int64_t id = n % 2; id < vocabulary; id += 3) {
      seen.push_back(static_cast<std::int32_t>(id));
    }
    row.seen_count = static_cast<std::int32_t>(seen.size()) - row.seen_begin;
    rows.push_back(row);
  }
  const auto row_bytes = static_cast<std::int64_t>(sizeof(SamplingRow));
  const SampleTokens op{
      .logits = runner.upload(logits, dtype, {c.tokens, vocabulary}, vocabulary + c.gap),
      .rows = {runner.upload_bytes(rows.data(), rows.size() * sizeof(SamplingRow)), DType::kU8,
               Shape{c.tokens, row_bytes}},
      .seen = runner.upload({seen.begin(), seen.end()}, DType::kI32, {std::ssize(seen)}),
      .token = runner.output(DType::kI32, {c.tokens}),
      .logprob = runner.output(accumulator_of(dtype), {c.tokens})};
  runner.run(op);
  const Outputs got{runner.download(op.token), runner.download(op.logprob)};
  for (std::int64_t n = 0; n < c.tokens; ++n) {
    const auto at = static_cast<std::size_t>(n);
    const auto begin = logits.begin() + n * vocabulary;
    const std::vector<double> own(begin, begin + vocabulary);
    const SamplingRow& row = rows[at];
    const auto share = distribution(
        own, row, {seen.begin() + row.seen_begin, seen.begin() + row.seen_begin + row.seen_count});
    // What is before the token is at most the share that was asked for, and with it is more; both
    // up to rounding.
    if (got[0][at] < 0 || got[0][at] >= static_cast<double>(vocabulary)) {
      runner.fail(fmt::format("drew token {} in row {}", got[0][at], n));
    }
    const auto token = static_cast<std::size_t>(got[0][at]);
    const double before =
        std::accumulate(share.begin(), share.begin() + static_cast<std::ptrdiff_t>(token), 0.0);
    constexpr double kRounding = 1e-9;
    if (share[token] == 0 || before > row.uniform + kRounding ||
        before + share[token] < row.uniform - kRounding) {
      runner.fail(fmt::format("drew token {} in row {} for {}, but its share is {} from {} on",
                              token, n, row.uniform, share[token], before));
    }
    const double top = *std::max_element(own.begin(), own.end());
    double sum = 0;
    for (const double logit : own) sum += std::exp(logit - top);
    const double logprob = own[token] - top - std::log(sum);
    const double allowed = 8 * unit_roundoff(accumulator_of(dtype)) * (1 + std::abs(logprob));
    if (!(std::abs(got[1][at] - logprob) <= allowed)) {
      runner.fail(fmt::format("gave row {} a logprob of {:.9g}, expected {:.9g} within {:.2g}", n,
                              got[1][at], logprob, allowed));
    }
  }
  return got;
}

}  // namespace strata
