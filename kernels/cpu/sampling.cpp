// This file draws tokens from logits on the CPU. CpuKernels calls it through operators.h. A thread
// does a row, with the row's logits in f64 as scratch; what is left out becomes -infinity, whose
// exponential is 0. A token that was seen and does not exist throws ShapeError.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

namespace {

constexpr double kLeftOut = -std::numeric_limits<double>::infinity();

/// Returns sum(exp(x - top)), in index order.
double sum_of_exponentials(std::span<const double> x, double top) {
  return std::accumulate(x.begin(), x.end(), 0.0,
                         [=](double sum, double value) { return sum + std::exp(value - top); });
}

void penalise(std::span<double> logits, std::span<const std::int32_t> seen, double penalty) {
  for (std::size_t i = 0; i < seen.size(); ++i) {
    check_index(SampleTokens::kName, "seen", static_cast<std::int64_t>(i), seen[i],
                static_cast<std::int64_t>(logits.size()));
    double& logit = logits[static_cast<std::size_t>(seen[i])];
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

/// Leaves out what is smaller than the k-th largest.
void keep_top_k(std::span<double> logits, std::size_t k) {
  if (k == 0 || k >= logits.size()) return;
  std::vector<double> sorted(logits.begin(), logits.end());
  const auto kth = sorted.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
  for (double& logit : logits) {
    if (logit < *kth) logit = kLeftOut;
  }
}

/// Leaves out a token if those that are likelier gather `top_p` without it; never the first.
void keep_top_p(std::span<double> logits, double top, double top_p) {
  if (top_p >= 1) return;
  std::vector<std::size_t> tokens;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] != kLeftOut) tokens.push_back(i);
  }
  std::stable_sort(tokens.begin(), tokens.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  const double enough = top_p * sum_of_exponentials(logits, top);
  double gathered = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const double own = std::exp(logits[tokens[i]] - top);
    if (i > 0 && gathered >= enough) logits[tokens[i]] = kLeftOut;
    gathered += own;
  }
}

/// Returns the first token at which the sums of exp(logit - top) exceed their share `uniform`.
std::size_t draw(std::span<const double> logits, double top, double uniform) {
  const double share = uniform * sum_of_exponentials(logits, top);
  double sum = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == kLeftOut) continue;
    sum += std::exp(logits[i] - top);
    last = i;
    if (sum > share) break;
  }
  return last;
}

/// Returns the token that a row draws from its logits, which it changes.
std::size_t choose(std::span<double> logits, const SamplingRow& row,
                   std::span<const std::int32_t> seen) {
  if (row.repeat_penalty != 1) penalise(logits, seen, row.repeat_penalty);
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (row.temperature == 0) return static_cast<std::size_t>(largest - logits.begin());
  for (double& logit : logits) logit /= row.temperature;
  const double top = *largest;
  keep_top_k(logits, static_cast<std::size_t>(row.top_k));
  keep_top_p(logits, top, row.top_p);
  if (row.min_p > 0) {
    for (double& logit : logits) {
      if (std::exp(logit - top) < row.min_p) logit = kLeftOut;
    }
  }
  return draw(logits, top, row.uniform);
}

}  // namespace

void execute(const Context& context, const SampleTokens& op) {
  with_compute_type(op.logits.dtype, [&]<Compute X>(X) {
    using A = Accumulator<X>;
    const Rows<const X> logits(op.logits);
    const auto* rows = reinterpret_cast<const SamplingRow*>(op.rows.as<std::uint8_t>());
    const auto* seen = op.seen ? op.seen.as<std::int32_t>() : nullptr;
    const std::int64_t vocabulary = op.logits.shape[1];
    const std::int64_t all_seen = op.seen ? op.seen.elements() : 0;
    context.pool.parallel_for(op.logits.rows(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const SamplingRow& row = rows[n];
        if (row.seen_count > 0) {
          check_index(op.kName, "rows", n, row.seen_begin, all_seen);
          check_index(op.kName, "rows", n, row.seen_begin + row.seen_count - 1, all_seen);
        }
        std::vector<double> values(logits[n], logits[n] + vocabulary);
        const bool has_nan =
            std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
        const double top = *std::max_element(values.begin(), values.end());
        if (has_nan || std::isinf(top)) {
          op.token.as<std::int32_t>()[n] = -1;
          op.logprob.as<A>()[n] = std::numeric_limits<A>::quiet_NaN();
          continue;
        }
        const double lse = top + std::log(sum_of_exponentials(values, top));
        const std::size_t token =
            choose(values, row, {seen + row.seen_begin, static_cast<std::size_t>(row.seen_count)});
        op.token.as<std::int32_t>()[n] = static_cast<std::int32_t>(token);
        op.logprob.as<A>()[n] =
            static_cast<A>(static_cast<double>(static_cast<A>(logits[n][token])) - lse);
      }
    });
  });
}

}  // namespace strata::cpu
