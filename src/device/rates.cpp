// The questions that a timeline asks of rates. Attention on short rows is slower by a simple law
// with one measured length in it.

#include "strata/device/rates.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace strata {

double attention_share(const Rates& rates, std::int64_t length, double half_length,
                       std::int64_t head_dim) {
  constexpr std::int64_t kNarrowHead = 64;
  const auto tokens = static_cast<double>(length);
  return tokens / (tokens + half_length) *
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
