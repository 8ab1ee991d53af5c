// What each key of the config means to a run that goes on: which may have changed since the
// checkpoint was saved, and which need leave. compare_with_checkpoint() reads the table; a test
// sees to it that every key stands in it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace strata {

/// What another value of a key changes of a run.
enum class KeyEffect : std::uint8_t {
  kFree,     ///< where, how fast and what is told, or bits within rounding (docs/numerics.md)
  kNumbers,  ///< the numbers, so it must be allowed
  kSteps,    ///< the numbers where the learning rate depends on how many steps there are
  kLevel,    ///< the numbers where what is spilled is rounded, if it is given
  kData,     ///< the numbers, unless files of other names hold the same
  kModel,    ///< the model, so it cannot be allowed
  kState,    ///< what the state holds, so it cannot be allowed
};

struct KeyRule {
  std::string_view path;
  KeyEffect effect = KeyEffect::kFree;
};

/// Returns the rules of all keys.
[[nodiscard]] std::span<const KeyRule> resume_rules();
/// Returns the effect of a key; one without a rule changes the numbers.
[[nodiscard]] KeyEffect effect_of(std::string_view path);

}  // namespace strata
