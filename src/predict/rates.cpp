// Answers the questions that a timeline asks of rates. Attention on short rows is slower by a
// simple law with one measured length in it, and on long ones faster by another with one measured
// gain.

#include "strata/predict/rates.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace strata {

double attention_share(const Rates& rates, CostKind kind, std::int64_t length,
                       std::int64_t head_dim) {
  constexpr std::int64_t kNarrowHead = 64;
  const bool backward = kind == CostKind::kAttentionBackward;
  const auto tokens = static_cast<double>(length);
  const double half = backward ? rates.attention_backward_length : rates.attention_forward_length;
  // Amid products the GPU's clock is what those leave it; the longer rows are, the more of a step
  // is attention, whose backward takes less power.
  const double longer = std::max(0.0, tokens - Rates::kShortRows);
  const double gain =
      backward ? rates.attention_backward_gain * longer / (longer + Rates::kHalfGain) : 0;
  return tokens / (tokens + half) * (1 + gain) *
         (head_dim > kNarrowHead ? 1.0 : rates.attention_head_share);
}

OperatorShare operator_share(const Rates& rates, std::string_view name) {
  const auto at = std::ranges::find(rates.operators, name, &OperatorShare::name);
  return at == rates.operators.end() ? OperatorShare{} : *at;
}

const CollectiveRate& collective_rate(const Rates& rates, std::string_view name) {
  const auto at = std::ranges::find(rates.collectives, name, &CollectiveRate::name);
  if (at == rates.collectives.end() || !(at->gbs > 0)) {
    throw std::invalid_argument("a timeline needs the rate of " + std::string(name));
  }
  return *at;
}

double collective_s(const CollectiveRate& rate, double bytes) {
  return bytes * rate.sent / (rate.gbs * 1e9);
}

double kernel_share_beside(const CollectiveRate& rate, double alone_s) {
  constexpr double kLeast = 0.5;  // small ones take few multiprocessors
  const double beside_s = alone_s / rate.own_share;
  if (!(beside_s > 0)) return rate.kernel_share;
  return std::max(std::min(kLeast, rate.kernel_share),
                  rate.kernel_share - rate.kernel_loss_us * 1e-6 / beside_s);
}

}  // namespace strata
