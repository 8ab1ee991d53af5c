// The two questions that a timeline asks of rates. Attention on short rows is slower by a simple
// law with one measured length in it.

#include "strata/device/rates.h"

#include <algorithm>

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

}  // namespace strata
