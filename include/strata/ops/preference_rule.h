// What a run is trained by where it is shown pairs of answers, with names of the papers.
#pragma once

#include <cstdint>

namespace strata {

/// What a pair is trained by. h is the gain over the reference in the log-probability of the chosen
/// answer less that of the rejected one, and s is the logistic function.
enum class Preference : std::uint8_t {
  kDpo,    ///< -log s(beta h), Rafailov et al., 2023
  kIpo,    ///< (h - 1 / (2 beta))^2 with means over tokens, Azar et al., 2023, as TRL has it
  kSimpo,  ///< -log s(beta (mean chosen - mean rejected) - gamma), Meng et al., 2024
  kOrpo,   ///< -mean chosen - beta log s(log of the odds ratio of the means), Hong et al., 2024
};

/// An objective with its numbers.
struct PreferenceRule {
  Preference objective = Preference::kDpo;
  double beta = 0.1;
  double gamma = 0;            ///< of kSimpo
  double label_smoothing = 0;  ///< of kDpo and kSimpo: the share of pairs that are the wrong way
  [[nodiscard]] constexpr bool needs_reference() const {
    return objective == Preference::kDpo || objective == Preference::kIpo;
  }
};

}  // namespace strata
