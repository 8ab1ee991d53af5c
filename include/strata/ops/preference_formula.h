// The losses of preference training for one pair of answers, as pure functions of what the model
// gives both: f64 in tests, A in the kernels of both backends, which share this file. Letters are
// those of the papers.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "strata/ops/preference_rule.h"

namespace strata {

/// An answer as a model sees it.
template <class A>
struct AnswerLogs {
  A log_probability = 0;  ///< of its tokens, summed
  A reference = 0;        ///< the same by the reference; 0 without one
  A tokens = 1;           ///< at least 1
};

/// What is made of a pair. A reward is what the objective compares, without the margin gamma.
template <class A>
struct PairTerms {
  A loss = 0;
  A chosen_reward = 0;
  A rejected_reward = 0;
  A d_chosen = 0;    ///< derivative of the loss by the log-probability of the chosen answer
  A d_rejected = 0;  ///< by that of the rejected one
};

namespace preference {

/// log(1 + exp(z)) without overflow.
template <class A>
constexpr A softplus(A z) {
  return (z > 0 ? z : A(0)) + std::log1p(std::exp(z > 0 ? -z : z));
}

template <class A>
constexpr A logistic(A z) {
  const A e = std::exp(z > 0 ? -z : z);
  return (z > 0 ? A(1) : e) / (A(1) + e);
}

/// The loss of a margin z and its derivative; `wrong` is the share of wrong labels.
template <class A>
struct MarginLoss {
  A loss;
  A slope;
  constexpr MarginLoss(A z, A wrong)
      : loss((1 - wrong) * softplus(-z) + wrong * softplus(z)), slope(logistic(z) - (1 - wrong)) {}
};

template <class A>
constexpr PairTerms<A> odds_ratio(A beta, const AnswerLogs<A>& chosen,
                                  const AnswerLogs<A>& rejected) {
  // A certain answer has infinite odds: its mean is kept below 0 by what A resolves.
  constexpr A kLargest = -std::numeric_limits<A>::epsilon();
  const A own_mean = chosen.log_probability / chosen.tokens;
  const A c = own_mean < kLargest ? own_mean : kLargest;
  const A other_mean = rejected.log_probability / rejected.tokens;
  const A r = other_mean < kLargest ? other_mean : kLargest;
  const A c_rest = -std::expm1(c);  // 1 - p
  const A r_rest = -std::expm1(r);
  const MarginLoss<A> margin((c - r) - (std::log(c_rest) - std::log(r_rest)), A(0));
  return {.loss = -own_mean + beta * margin.loss,
          .chosen_reward = beta * own_mean,
          .rejected_reward = beta * other_mean,
          .d_chosen = (beta * margin.slope / c_rest - 1) / chosen.tokens,
          .d_rejected = -beta * margin.slope / r_rest / rejected.tokens};
}

}  // namespace preference

/// Returns what the rule makes of a pair.
template <class A>
constexpr PairTerms<A> pair_terms(const PreferenceRule& rule, const AnswerLogs<A>& chosen,
                                  const AnswerLogs<A>& rejected) {
  const A beta = static_cast<A>(rule.beta);
  if (rule.objective == Preference::kOrpo) return preference::odds_ratio(beta, chosen, rejected);
  const bool summed = rule.objective == Preference::kDpo;
  const A c_share = summed ? A(1) : 1 / chosen.tokens;
  const A r_share = summed ? A(1) : 1 / rejected.tokens;
  const A c = (chosen.log_probability - chosen.reference) * c_share;
  const A r = (rejected.log_probability - rejected.reference) * r_share;
  PairTerms<A> terms{.chosen_reward = beta * c, .rejected_reward = beta * r};
  A slope = 0;  // of the loss by c - r
  if (rule.objective == Preference::kIpo) {
    const A off = (c - r) - 1 / (2 * beta);
    terms.loss = off * off;
    slope = 2 * off;
  } else {
    const preference::MarginLoss<A> margin(beta * (c - r) - static_cast<A>(rule.gamma),
                                           static_cast<A>(rule.label_smoothing));
    terms.loss = margin.loss;
    slope = beta * margin.slope;
  }
  terms.d_chosen = slope * c_share;
  terms.d_rejected = -slope * r_share;
  return terms;
}

}  // namespace strata
